#include "report/page/page_template.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/html.h"

enum { TAG_NAME = 32 };

/* A value and those around it. */
struct template_scope {
    const cJSON *value;
    const struct template_scope *outer;
};

struct template_tag {
    char kind; /* '#', '?', '^', '/', '&', '+' or, for text, 0 */
    char name[TAG_NAME];
    char format[TAG_NAME]; /* after the colon */
    const char *begin;
    const char *end;
};

static bool template_next_tag(const char *html, struct template_tag *tag)
{
    const char *name = strstr(html, "{{");
    size_t len;

    if (name == NULL)
        return false;
    tag->begin = name;
    name += 2;
    tag->kind = '\0';
    if (strchr("#?^/&+", *name) != NULL)
        tag->kind = *name++;
    len = strcspn(name, ":}");
    snprintf(tag->name, sizeof(tag->name), "%.*s", (int)len, name);
    name += len + (name[len] == ':');
    len = strcspn(name, "}");
    snprintf(tag->format, sizeof(tag->format), "%.*s", (int)len, name);
    tag->end = name + len + 2;
    return true;
}

static const cJSON *template_find(const struct template_scope *scope,
                                  const char *name)
{
    const cJSON *value = NULL;

    for (; scope != NULL && value == NULL; scope = scope->outer)
        value = cJSON_GetObjectItemCaseSensitive(scope->value, name);
    return value;
}

static void template_write_value(const struct template_tag *tag,
                                 const cJSON *value, FILE *fp)
{
    if (cJSON_IsString(value) && tag->kind == '&')
        fputs(value->valuestring, fp);
    else if (cJSON_IsString(value))
        stp_html_text(value->valuestring, strlen(value->valuestring), fp);
    else if (cJSON_IsNumber(value) && tag->kind == '+')
        fprintf(fp, "%.15g %s%s", value->valuedouble, tag->format,
                value->valuedouble == 1 ? "" : "s");
    else if (cJSON_IsNumber(value) && tag->format[0] != '\0')
        fprintf(fp, tag->format[0] == '+' ? "%+.*f" : "%.*f", atoi(tag->format),
                value->valuedouble);
    else if (cJSON_IsNumber(value))
        fprintf(fp, "%.15g", value->valuedouble);
}

static bool template_is_there(const cJSON *value)
{
    if (cJSON_IsString(value))
        return value->valuestring[0] != '\0';
    if (cJSON_IsArray(value))
        return value->child != NULL;
    return value != NULL && !cJSON_IsNull(value) && !cJSON_IsFalse(value);
}

/* Fills 'html' up to the closing tag of its section, and returns what follows;
 * writes nothing if 'fp' is NULL. */
static const char *template_fill(const char *html,
                                 const struct template_scope *scope, FILE *fp);

static const char *template_fill(const char *html,
                                 const struct template_scope *scope, FILE *fp)
{
    struct template_tag tag;

    while (template_next_tag(html, &tag)) {
        if (fp != NULL)
            fwrite(html, 1, (size_t)(tag.begin - html), fp);
        html = tag.end;
        if (tag.kind == '/')
            return html;
        if (tag.kind != '\0' && strchr("#?^", tag.kind) != NULL) {
            const cJSON *value = template_find(scope, tag.name);
            bool is_list = cJSON_IsArray(value);
            bool is_there = template_is_there(value);
            struct template_scope inner = {value, scope};

            if (fp != NULL && is_there != (tag.kind == '^')) {
                if (is_list && tag.kind == '#')
                    cJSON_ArrayForEach(inner.value, value)
                        template_fill(html, &inner, fp);
                else
                    template_fill(html, &inner, fp);
            }
            html = template_fill(html, scope, NULL);
        } else if (fp != NULL)
            template_write_value(&tag, template_find(scope, tag.name), fp);
    }
    if (fp != NULL)
        fputs(html, fp);
    return html + strlen(html);
}

void stp_page_fill(const char *html, const cJSON *values, FILE *fp)
{
    template_fill(html, &(struct template_scope){values, NULL}, fp);
}

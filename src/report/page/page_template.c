/* page_template.c - fills an HTML template from JSON */
#include "report/page/page_data.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "report/words.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* The entity of a character that is markup, the replacement of a control
 * character, or NULL. */
static const char *html_entity(unsigned char c)
{
    static const char *const entities[UCHAR_MAX + 1] = {
        ['&'] = "&amp;",  ['<'] = "&lt;",   ['>'] = "&gt;",
        ['"'] = "&quot;", ['\''] = "&#39;", [0x7f] = replacement,
    };

    return c < 0x20 && c != '\t' && c != '\n' ? replacement : entities[c];
}

void stp_html_text(const char *text, size_t len, FILE *fp)
{
    for (size_t i = 0; i < len;) {
        const char *word = html_entity((unsigned char)text[i]);
        size_t n = stp_utf8_len(&text[i], len - i);

        if (word == NULL && n > 0)
            fwrite(&text[i], 1, n, fp);
        else
            fputs(word != NULL ? word : replacement, fp);
        i += n > 0 ? n : 1;
    }
}

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

static void template_write(const struct template_tag *tag,
                           const struct template_scope *scope, FILE *fp)
{
    const cJSON *value = template_find(scope, tag->name);
    const double number = cJSON_IsNumber(value) ? value->valuedouble : 0;
    const char *format = tag->format;
    char text[2 * TAG_NAME];

    if (cJSON_IsObject(value) && tag->kind == '&') {
        char *json = cJSON_PrintUnformatted(value);

        for (const char *s = json; s != NULL && *s != '\0'; s++)
            fprintf(fp, *s == '<' ? "\\u003c" : "%c", *s);
        cJSON_free(json);
    } else if (cJSON_IsObject(value)) {
        /* Writes a choice: its kernel, or algorithm, protocol and channels. */
        const char *kernel =
            cJSON_GetStringValue(cJSON_GetObjectItem(value, "kernel"));
        const char *algo =
            cJSON_GetStringValue(cJSON_GetObjectItem(value, "algorithm"));
        const char *proto =
            cJSON_GetStringValue(cJSON_GetObjectItem(value, "protocol"));
        const cJSON *n_channels = cJSON_GetObjectItem(value, "channels");

        if (kernel != NULL)
            stp_html_text(kernel, strlen(kernel), fp);
        else if (algo == NULL)
            fputs("-", fp);
        else
            fprintf(fp, "%s/%s", algo, proto != NULL ? proto : "?");
        if (kernel == NULL && algo != NULL && n_channels->valueint > 0)
            fprintf(fp, "/%d", n_channels->valueint);
    } else if (cJSON_IsString(value) && tag->kind == '&') {
        fputs(value->valuestring, fp);
    } else if (cJSON_IsString(value)) {
        stp_html_text(value->valuestring, strlen(value->valuestring), fp);
    } else if (!cJSON_IsNumber(value)) {
        return;
    } else if (tag->kind == '+') {
        fprintf(fp, "%.15g %s%s", number, format, STP_S(number));
    } else if (strcmp(format, "interval") == 0) {
        const cJSON *rounds = template_find(scope, "rounds");
        struct stp_gain gain = {
            .high = INFINITY, .n_pairs = rounds != NULL ? rounds->valueint : 0};

        snprintf(text, sizeof(text), "%s_high", tag->name);
        if (cJSON_IsNumber(template_find(scope, text))) {
            gain.high = template_find(scope, text)->valuedouble;
            snprintf(text, sizeof(text), "%s_low", tag->name);
            gain.low = template_find(scope, text)->valuedouble;
        }
        fputs(STP_INTERVAL_TEXT(&gain), fp);
    } else if (strcmp(format, "size") == 0) {
        fputs(STP_SIZE_NAME((uint64_t)number), fp);
    } else if (format[0] != '\0') {
        fprintf(fp, format[0] == '+' ? "%+.*f" : "%.*f", atoi(format),
                strchr(format, '%') != NULL ? number * 100 : number);
    } else {
        fprintf(fp, "%.15g", number);
    }
}

/* Fills 'html' up to the closing tag of its section, and returns what follows;
 * writes nothing if 'fp' is NULL. */
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
            bool is_there = is_list ? value->child != NULL
                            : cJSON_IsString(value)
                                ? value->valuestring[0] != '\0'
                                : value != NULL && !cJSON_IsNull(value) &&
                                      !cJSON_IsFalse(value);
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
            template_write(&tag, scope, fp);
    }
    if (fp != NULL)
        fputs(html, fp);
    return html + strlen(html);
}

void stp_page_fill(const char *html, const cJSON *values, FILE *fp)
{
    template_fill(html, &(struct template_scope){values, NULL}, fp);
}

/* doctor_files.c - files that NCCL's variables name, read as NCCL reads them */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/doctor/doctor.h"
#include "core/text.h"

enum { MAX_XML = 64 << 20, DEPTH = 32 };

/* ---- XML, of which NCCL reads a part ---- */

static const char missing[] = "nothing that NCCL reads";

struct xml {
    const char *at;    /* in a text that ends with a NUL */
    const char *fault; /* at 'at'; NULL: none */
    const char *root;  /* the element that NCCL reads */
    bool has_root;
    size_t depth;
    struct {
        const char *s;
        size_t len;
    } open[DEPTH]; /* names of the elements that are open */
};

/* Reads NAME="VALUE" behind each single blank, the only space that NCCL knows
 * there.  Returns whether a version is 1. */
static bool xml_read_attributes(struct xml *x)
{
    bool has_version = false;

    while (*x->at == ' ') {
        const char *name = ++x->at, *value;

        x->at += strcspn(x->at, "= >/\n\r");
        if (*x->at != '=')
            continue;
        value = ++x->at;
        if (*value == '"' || *value == '\'')
            x->at = strchr(value + 1, *value);
        if (x->at == NULL || x->at == value) {
            x->at = value;
            x->fault = "expected a value in quotation marks";
            return false;
        }
        x->at++;
        has_version |= strncmp(name, "version=", 8) == 0 && value[1] == '1' &&
                       x->at == value + 3;
    }
    if (strncmp(x->at, "/>", 2) != 0 && *x->at != '>')
        x->fault = "expected '>', or a blank and an attribute";
    return has_version;
}

static void xml_open(struct xml *x)
{
    const bool is_root = x->depth == 0;
    const char *name = x->at + 1;
    const size_t len = strcspn(name, " >/\n\r");
    bool has_version;

    x->at = name + len;
    has_version = xml_read_attributes(x);
    if (x->fault != NULL)
        return;
    if (is_root && len == strlen(x->root) && memcmp(name, x->root, len) == 0) {
        x->has_root = true;
        x->fault = has_version ? NULL : "expected version=\"1\"";
    }
    x->open[x->depth].s = name;
    x->open[x->depth].len = len;
    x->depth += *x->at == '>';
    x->at += *x->at == '>' ? 1 : 2;
    if (x->depth == DEPTH)
        x->fault = "elements lie too deep in each other";
}

/* Reads the text; true if NCCL would, and finds the root in it. */
static bool xml_read(struct xml *x)
{
    while (x->fault == NULL && *(x->at += strspn(x->at, " \n\r")) != '\0') {
        if (strncmp(x->at, "<!--", 4) == 0) {
            const char *end = strstr(x->at, "-->");

            if (end != NULL)
                x->at = end + 3;
            else
                x->fault = "a comment has no end";
        } else if (strncmp(x->at, "</", 2) == 0) {
            const size_t len = x->depth > 0 ? x->open[--x->depth].len : 0;

            if (len == 0 || strncmp(x->at + 2, x->open[x->depth].s, len) != 0 ||
                x->at[2 + len] != '>')
                x->fault = "this ends another element than the last";
            else
                x->at += 2 + len + 1;
        } else if (*x->at == '<')
            xml_open(x);
        else
            x->fault = "expected '<'";
    }
    if (x->fault == NULL && x->depth > 0)
        x->fault = "the file ends in an element";
    else if (x->fault == NULL && !x->has_root)
        x->fault = missing;
    return x->fault == NULL;
}

enum stp_status stp_doctor_read(const char *path, size_t max, char **text_ret,
                                size_t *len_ret, struct stp_error *err)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode)
               ? stp_fail(err, STP_ERR_IO,
                          "is a pipe, on which NCCL waits, expected a file")
               : stp_read_file(path, max, text_ret, len_ret, err);
}

static void files_judge_xml(struct stp_doctor *d, const struct stp_variable *v,
                            const char *path)
{
    const bool is_graph = strcmp(stp_variable_words(v), "graphs") == 0;
    struct xml x = {.root = stp_variable_words(v)};
    struct stp_error err;
    char *text = NULL;
    unsigned line = 1;
    size_t len;

    if (stp_doctor_read(path, MAX_XML, &text, &len, &err) != STP_OK) {
        STP_PROBLEM(d,
                    is_graph ? "each communicator fails"
                             : "NCCL goes on without it, by what it finds",
                    "correct the path, or unset it", "%s=%s (%s) %s", v->name,
                    path, stp_doctor_where(d, v->name), err.text);
        return;
    }
    x.at = text;
    if (xml_read(&x)) {
        STP_REMARK(d,
                   is_graph ? "NCCL takes its channels from there"
                            : "NCCL takes what connects the GPUs from there",
                   NULL, "%s=%s is set in %s", v->name, path,
                   stp_doctor_where(d, v->name));
    } else {
        for (const char *c = text; c < x.at; c++)
            line += *c == '\n';
        if (x.fault == missing)
            STP_PROBLEM(d, "NCCL goes on without it", NULL,
                        "%s=%s has <%.*s>, expected <%s>", v->name, path,
                        (int)x.open[0].len,
                        x.open[0].len > 0 ? x.open[0].s : "", x.root);
        else
            STP_PROBLEM(d, "each communicator fails", NULL, "%s=%s:%u: %s",
                        v->name, path, line, x.fault);
        stp_diagnose_todo(
            &d->diagnosis,
            "write it as NCCL does: no header, <%s version=\"1\">,"
            " and blanks and ends of lines alone between elements",
            x.root);
    }
    free(text);
}

void stp_doctor_files(struct stp_doctor *d)
{
    struct stp_variable v;

    for (size_t i = 0; stp_variable_at(i, &v); i++) {
        const char *path = stp_doctor_setting(v.name);

        if (path[0] != '\0' && stp_variable_is(&v, "xml"))
            files_judge_xml(d, &v, path);
    }
}

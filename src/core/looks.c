#include "core/looks.h"

#include <stdbool.h>
#include <string.h>

#include "core/text.h"

enum { HEAD = 1 << 16 }; /* bytes that are looked at */

#define UTF_16 "text in UTF-16 (iconv -f UTF-16 -t UTF-8 makes it readable)"

/* Kinds, the surer first.  Words begin the text behind blanks if they have a
 * '^' before them, and are anywhere else if not. */
static const struct {
    const char *words[2];
    const char *what;
} kinds[] = {
    {{"^\x7f"
      "ELF"},
     "a program or a library"},
    {{"^\x1f\x8b"}, "a compressed file (gunzip makes it readable)"},
    {{"^\x28\xb5\x2f\xfd"}, "a compressed file (unzstd makes it readable)"},
    {{"^\3757zXZ"}, "a compressed file (unxz makes it readable)"},
    {{"^BZh"}, "a compressed file (bunzip2 makes it readable)"},
    {{"^PK\x03\x04"}, "an archive (zip), as torch.save() writes"},
    {{"^%PDF"}, "a PDF"},
    {{"^\x89PNG"}, "an image (PNG)"},
    {{"^SQLite format 3"}, "a database (SQLite), as nsys export writes"},
    {{"^NVIDIA NSIGHT"}, "a profile of Nsight Systems"},
    {{"^\x80\x02"}, "a pickle of Python, as PyTorch's flight recorder writes"},
    {{"^\x80\x04"}, "a pickle of Python, as PyTorch's flight recorder writes"},
    {{"^\x80\x05"}, "a pickle of Python, as PyTorch's flight recorder writes"},
    {{"^\xff\xfe"}, UTF_16},
    {{"^\xfe\xff"}, UTF_16},
    {{"<graphs", "<graph "}, "NCCL's search graphs (NCCL_GRAPH_DUMP_FILE)"},
    {{"<system", "<cpu"}, "NCCL's topology (NCCL_TOPO_DUMP_FILE)"},
    {{"^<!DOCTYPE html"}, "a web page"},
    {{"^<!doctype html"}, "a web page"},
    {{"^<html"}, "a web page"},
    {{"^<?xml"}, "XML"},
    {{"\"traceEvents\""}, "a profiler's trace (Chrome's JSON)"},
    {{"\"pg_config\""}, "a dump of PyTorch's flight recorder (JSON)"},
    {{"\"coll_perf\""}, "the output of NCCL Inspector (JSON)"},
    {{"\"schema\"", "\"nodes\""}, "an execution trace of PyTorch (JSON)"},
    {{"\"measurements\"", "\"median_us\""}, "measurements of Steptune (JSON)"},
    {{"\"busBw\""}, "JSON of rccl-tests"},
    {{"^{\""}, "JSON"},
    {{"^{\n"}, "JSON"},
    {{"^[{"}, "JSON"},
    {{",median_us"}, "measurements of Steptune"},
    {{"^t_ns,process,comm,nRanks,group,graph,collective,bytes,type,begin_ns,"
      "end_ns\n"},
     "a trace of `steptune run`"},
    {{"collective,bytes"}, "a trace of collectives"},
    {{"^# TYPE steptune_"}, "metrics of Steptune"},
    {{"^t_us,comm,"}, "a journal of what a job learned"},
    {{" NCCL INFO "}, "a log of NCCL, which `steptune explain` answers"},
    {{" NCCL WARN "}, "a log of NCCL, which `steptune explain` answers"},
    {{"^NCCL INFO "}, "a log of NCCL, which `steptune explain` answers"},
    {{"Collective test starting:"}, "text of nccl-tests"},
    {{" algbw", " busbw"}, "text of nccl-tests"},
    {{"^allreduce,"}, "a policy (steptune-policy(5))"},
    {{"\nallreduce,"}, "a policy (steptune-policy(5))"},
    {{"\nallgather,"}, "a policy (steptune-policy(5))"},
    {{"\nreducescatter,"}, "a policy (steptune-policy(5))"},
    {{"| NVIDIA-SMI "}, "the output of nvidia-smi"},
    {{"GPU0\tGPU1"}, "the output of nvidia-smi topo -m"},
    {{"\n```"}, "a page of Markdown"},
    {{"](http"}, "a page of Markdown"},
    {{"\n| --"}, "a page of Markdown"},
    {{"\n|--"}, "a page of Markdown"},
    {{"^#!"}, "a script"},
    {{"^---\n"}, "YAML"},
    {{"^import "}, "a script of Python"},
    {{"Traceback (most recent call last)"},
     "the output of a program of Python"},
};

static bool looks_has(const char *text, size_t len, const char *words)
{
    const bool begins = words != NULL && *words == '^';
    const size_t n = words != NULL ? strlen(words) - begins : 0;

    for (size_t i = 0; i + n <= len && (i == 0 || !begins); i++)
        if (n == 0 || memcmp(text + i, words + begins, n) == 0)
            return true;
    return false;
}

/* Whether the first two lines that are no comments are of a table: names, and
 * as many fields, and not a table of Steptune's. */
static bool looks_tabular(const char *text, size_t len)
{
    static const char ours[] = "collective";
    const char *s = text, *line;
    size_t n, n_commas[2] = {0, 0};

    for (int i = 0; i < 2;) {
        line = stp_next_line(&s, text + len, &n);
        if (line == NULL)
            return false;
        if (n == 0 || *line == '#')
            continue;
        for (size_t k = 0; k < n; k++) {
            n_commas[i] += line[k] == ',';
            if (i == 0 && line[k] >= '0' && line[k] <= '9')
                return false;
        }
        if (i++ == 0 && looks_has(line, n, ours))
            return false;
    }
    return n_commas[0] > 0 && n_commas[0] == n_commas[1];
}

const char *stp_looks_like(const char *text, size_t len)
{
    const char *s = stp_past_bom(text, &len);
    size_t n = len < HEAD ? len : HEAD, n_nul = 0;

    for (; n > 0 && memchr(" \t\r\n", *s, 4) != NULL; n--)
        s++;
    if (n == 0)
        return "an empty file";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (looks_has(s, n, kinds[i].words[0]) &&
            looks_has(s, n, kinds[i].words[1]))
            return kinds[i].what;
    if (looks_tabular(s, n))
        return "a table (CSV) with other columns";
    for (size_t i = 0; i < n; i++)
        n_nul += s[i] == '\0';
    /* without a mark, text of Latin letters has a NUL in every other byte */
    if (n > 1 && n_nul > n / 20 * 9 && n_nul <= (n + 1) / 2 &&
        (s[0] == '\0') != (s[1] == '\0'))
        return UTF_16;
    return *s != '#' && n_nul > n / 50 + 1 ? "binary data" : NULL;
}

enum stp_status stp_refuse_kind(const char *text, size_t len,
                                const char *expected, struct stp_error *err)
{
    const char *what = stp_looks_like(text, len);

    if (what == NULL || strstr(expected, what) != NULL)
        return STP_ERR_SYNTAX;
    return stp_fail(err, STP_ERR_SYNTAX, "this %s %s, expected %s",
                    strcmp(what, "an empty file") == 0 ? "is" : "looks like",
                    what, expected);
}

#include "report/memory_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/names.h"
#include "core/policy/baseline.h"

static void memory_write_evidence(const struct stp_memory_rule *rule, FILE *fp)
{
    char text[STP_MEMORY_TEXT];

    for (size_t i = 0; i < rule->n_evidence; i++) {
        const struct stp_memory_evidence *e = &rule->evidence[i];

        fprintf(fp,
                "# %" PRIu64 " B: plain %.1f us -> %s %.1f us, gain %.3f (%.3f "
                "to %.3f)",
                e->n_bytes, e->auto_us,
                stp_memory_text(rule->rule.memory, rule->rule.min_ctas, text),
                e->us, e->gain.gain, e->gain.low, e->gain.high);
        if (e->best[0] != '\0')
            fprintf(fp, ", over %s %.3f (%.3f to %.3f)", e->best,
                    e->gain_over_best.gain, e->gain_over_best.low,
                    e->gain_over_best.high);
        fprintf(fp, ", %zu rounds %s\n", e->gain.n_pairs,
                stp_source_words(e->source, e->single_pass));
    }
}

/* Writes a range of numbers, such as nRanks: "4" or "2-8". */
static void memory_write_range(const struct stp_range *range, FILE *fp)
{
    fprintf(fp, ",%" PRIu64, range->min);
    if (range->max == UINT64_MAX)
        fputs("-inf", fp);
    else if (range->max != range->min)
        fprintf(fp, "-%" PRIu64, range->max);
}

void stp_memory_drops_write(const struct stp_memory_table *table,
                            const char *begin, FILE *fp)
{
    char text[STP_MEMORY_TEXT];

    for (size_t i = 0; i < table->n_drops; i++) {
        const struct stp_memory_drop *d = &table->drops[i];

        fprintf(fp,
                "%sDropped: %s for %s of %" PRIu64
                " bytes on %u ranks%s, gain %.3f at first; measured again ",
                begin,
                stp_memory_text(d->setup.memory, d->setup.min_ctas, text),
                stp_coll_name(d->coll), d->n_bytes, d->n_ranks,
                d->overlaps ? " overlapped with compute" : "", d->gain);
        if (isnan(d->again))
            fputs("it was slower than plain buffers in some workload\n", fp);
        else
            fprintf(fp, "it was %.3f, and the policy's %.3f\n", d->again,
                    d->policy);
    }
}

enum stp_status stp_memory_file_save(const struct stp_memory_table *table,
                                     const struct stp_policy_origin *origin,
                                     const char *path, struct stp_error *err)
{
    const bool is_staged = table->kind == STP_POLICY_OF_STAGE;
    struct stp_policy_text text = {.kind = table->kind,
                                   .made_by = origin->made_by,
                                   .run = origin->data->run};

    stp_policy_text_begin(&text);

    /* Optional columns are there if a rule needs them. */
    bool has_ctas = false, has_overlap = false, has_gpu = false;

    for (size_t i = 0; i < table->n_rules; i++) {
        const char *gpu = table->rules[i].rule.gpu;

        has_ctas |= table->rules[i].rule.min_ctas != 0;
        has_overlap |= table->rules[i].rule.overlap != -1;
        has_gpu |= gpu != NULL && stp_gpu_is_plain(gpu, strlen(gpu));
    }

    stp_same_bits_write(origin, text.fp);
    fputs("# from ", text.fp);
    stp_times_write(origin->data, text.fp);
    fprintf(text.fp,
            STP_BASELINE_BEGIN STP_BASELINE_PLAIN
            "%s is at least %g percent, and where it is faster than the best "
            "rule of a policy, both with 95 percent confidence%s; elsewhere "
            "buffers stay plain, as they do where launches take the time: "
            "where four times the bytes take about as long.\n",
            STP_AUTO_WORDS(origin->data->tuner), origin->min_gain * 100,
            is_staged ? ", and where no iteration in which compute goes on is "
                        "slower"
                      : ", and goes on at neighbouring sizes where it is "
                        "faster than both by less, with the same confidence");
    if (has_ctas)
        fputs("# min_ctas is what ncclConfig_t.minCTAs of the communicator is "
              "to be, with maxCTAs 64; 0: NCCL's own.\n",
              text.fp);
    if (is_staged && table->n_rules > 0)
        fprintf(text.fp,
                "# Times with graph 0 are of collectives that are launched one "
                "by one; with graph 1, of CUDA graphs, of iterations less "
                "their compute or back to back: a rule saves at least %d us, "
                "as a job's graph may lose some of them between its other "
                "kernels. Both copies are in them.\n",
                STP_DERIVE_GRAPH_US);
    if (has_overlap && is_staged)
        fputs("# With overlap 0 a rule stands where such an iteration is "
              "slower, too, or none was timed: it is for jobs in which nothing "
              "runs beside collectives, and applies only where "
              "NCCL_WORKLOAD_OVERLAP=0 says so.\n",
              text.fp);
    else if (has_overlap)
        fputs("# Times with overlap 0 are of collectives back to back, or of "
              "an iteration less its compute; with overlap 1, of an "
              "iteration.\n",
              text.fp);
    if (table->n_rules == 0)
        fputs("# No rule: no buffers gain enough beyond doubt at any size "
              "timed.\n",
              text.fp);
    stp_memory_drops_write(table, "# ", text.fp);
    fprintf(text.fp,
            "collective,min_bytes,max_bytes,memory%s,nNodes,nRanks%s%s%s\n",
            has_ctas ? ",min_ctas" : "", is_staged ? ",graph" : "",
            has_overlap ? ",overlap" : "", has_gpu ? ",gpu" : "");
    for (size_t i = 0; i < table->n_rules; i++) {
        fputc('\n', text.fp);
        memory_write_evidence(&table->rules[i], text.fp);

        const struct stp_rule *rule = &table->rules[i].rule;

        fprintf(text.fp, "%s,%" PRIu64 ",", stp_coll_name(rule->coll),
                rule->bytes.min);
        if (rule->bytes.max == UINT64_MAX)
            fputs("inf", text.fp);
        else
            fprintf(text.fp, "%" PRIu64, rule->bytes.max);
        fprintf(text.fp, ",%s", stp_memory_name(rule->memory));
        if (has_ctas)
            fprintf(text.fp, ",%d", rule->min_ctas);
        memory_write_range(&rule->nodes, text.fp);
        memory_write_range(&rule->ranks, text.fp);
        if (is_staged)
            fprintf(text.fp, ",%d", rule->graph);
        if (has_overlap)
            fprintf(text.fp, ",%d", rule->overlap);
        if (has_gpu)
            fprintf(text.fp, ",%s", rule->gpu != NULL ? rule->gpu : "*");
        fputc('\n', text.fp);
    }

    return stp_policy_text_end(&text, path, err);
}

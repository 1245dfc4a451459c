#include "report/policy_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyse/objective.h"
#include "core/csv.h"
#include "core/names.h"
#include "core/policy/baseline.h"
#include "core/policy/memory_policy.h"
#include "core/policy/policy_columns.h"
#include "core/room.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/words.h"

static bool policy_has_gpu_column(const struct stp_policy_origin *origin)
{
    return !origin->portable &&
           stp_gpu_is_plain(origin->data->gpu, strlen(origin->data->gpu));
}

void stp_times_write(const struct stp_dataset *data, FILE *fp)
{
    struct stp_source_count count = {0};
    char sources[STP_SOURCES_TEXT];
    size_t n_captured = 0;

    stp_count_sources(data, &count);
    stp_sources_text(&count, sources);
    for (size_t i = 0; i < data->n_rows; i++)
        n_captured += data->rows[i].graph;
    if (n_captured > 0)
        stp_append(sources, sizeof(sources),
                   n_captured == data->n_rows ? ", in CUDA graphs"
                                              : ", %zu of them in CUDA graphs",
                   n_captured);
    fputs("times of ", fp);
    if (stp_dataset_n_iterations(data) > 0)
        fputs("iterations on ", fp);
    if (data->machine[0] != '\0')
        fprintf(fp, "%s (%s%s%s)", data->machine, data->gpu,
                data->nccl[0] != '\0' ? ", NCCL " : "", data->nccl);
    else
        fputs("a machine without a name", fp);
    fprintf(fp, ": %s\n", sources);
}

const char *stp_same_bits_text(const struct stp_dataset *data,
                               char text[STP_ERROR_TEXT])
{
    const char *rules = "nobody compared those of sums here, so that only "
                        "collectives that move data have rules";

    for (size_t i = 0; i < data->n_rows; i++)
        if (stp_coll_reduces(data->rows[i].coll) &&
            data->rows[i].bits != STP_BITS_UNKNOWN)
            rules = "a rule of a sum stands only at sizes at which its arm was "
                    "measured to add in the same order, one collective at a "
                    "time";
    snprintf(text, STP_ERROR_TEXT, "Results keep the bits of %s: %s.",
             STP_AUTO_WORDS(data->tuner), rules);
    return text;
}

void stp_same_bits_write(const struct stp_policy_origin *origin, FILE *fp)
{
    if (origin->same_bits)
        fprintf(fp, "# bits: same\n# %s\n", STP_SAME_BITS_TEXT(origin->data));
}

void stp_steadiness_write(const struct stp_steadiness *s, FILE *fp)
{
    if (s->min_rounds < s->max_rounds)
        fprintf(fp, "%zu to ", s->min_rounds);
    fprintf(fp, "%zu round%s", s->max_rounds, STP_S(s->max_rounds));
    if (s->max_rounds > 1)
        fprintf(fp, "; AUTO spreads by %.2f percent (worst size %.2f)",
                s->spread * 100, s->worst_spread * 100);
    if (isfinite(s->drift))
        fprintf(fp,
                "; drift from first to last third %+.2f percent (worst size "
                "%+.2f)",
                s->drift * 100, s->worst_drift * 100);
    if (isfinite(s->resolved))
        fprintf(fp, "; gains from %.2f percent up stand out from noise",
                s->resolved * 100);
}

void stp_no_rule_write(const struct stp_policy_origin *origin, FILE *fp)
{
    const struct stp_dataset *data = origin->data;
    struct stp_source_count count = {0};
    size_t n_modelled;
    bool has_rounds = false; /* times that rules may rest on */
    bool has_arm = false;    /* that a rule can name */

    for (size_t i = 0; i < data->n_rows; i++) {
        has_rounds |= stp_source_decides(data->rows[i].source) &&
                      (origin->trusts_passes || !data->rows[i].single_pass);
        has_arm |= data->rows[i].arm.kind == STP_ARM_FORCED;
    }
    if (!has_arm) {
        fputs("no arm that a rule can name was timed", fp);
        return;
    }
    if (origin->all_are_wrong) {
        fprintf(fp, "at no size %s and another arm have right results",
                STP_AUTO_WORDS(data->tuner));
        return;
    }
    stp_count_sources(data, &count);
    n_modelled = count.n[STP_SOURCE_MODELLED];
    if (origin->steadiness != NULL && origin->steadiness->max_rounds < 2) {
        fputs("one round says nothing of its error", fp);
        return;
    }
    if (!has_rounds) {
        fputs("none of these times is of interleaved rounds, and a model "
              "decides nothing",
              fp);
        return;
    }
    if (n_modelled > 0)
        fprintf(fp,
                "%zu of %zu times are modelled, and a model decides nothing; "
                "by the others ",
                n_modelled, data->n_rows);
    fputs(origin->same_bits
              ? "no arm that keeps the bits gains enough beyond doubt at any "
                "size timed"
          : stp_dataset_n_iterations(data) > 0
              ? "no arm makes iterations shorter beyond doubt at any size timed"
              : "no arm gains enough beyond doubt at any size timed",
          fp);
}

static void policy_write_rule(const struct stp_derived_rule *rule,
                              const struct stp_policy_origin *origin, FILE *fp)
{
    bool has_end = rule->max_bytes != STP_DERIVE_NO_END || origin->portable;

    fprintf(fp, "\n");

    for (size_t i = 0; i < rule->n_points; i++) {
        const struct stp_point *p = &rule->points[i];
        const struct stp_comparison *c = stp_point_arm(p, &rule->arm);

        fprintf(fp, "# %" PRIu64 " B: ", p->n_bytes);
        if (p->auto_algo < 0)
            fputs("auto", fp); /* unknown */
        else
            fprintf(fp, "%s/%s", stp_algo_name(p->auto_algo),
                    stp_proto_name(p->auto_proto));
        fprintf(fp,
                " %.1f us -> %.1f us, gain %.3f (%.3f to %.3f), %zu rounds "
                "%s\n",
                p->auto_us, c->us, c->gain.gain, c->gain.low, c->gain.high,
                c->gain.n_pairs, stp_source_words(c->source, c->single_pass));
    }

    fprintf(fp, "%s,%" PRIu64 ",", stp_coll_name(rule->coll), rule->min_bytes);
    if (has_end)
        fprintf(fp, "%" PRIu64, rule->max_bytes);
    else
        fputs("inf", fp);
    fprintf(fp, ",%s,%s,%d,%u,%u", stp_algo_name(rule->arm.algo),
            stp_proto_name(rule->arm.proto),
            rule->arm.n_channels == 0 ? -1 : rule->arm.n_channels,
            rule->n_nodes, rule->n_ranks);
    /* a sum in a group lies on other channels than one of its size alone */
    if (origin->same_bits)
        fputs(stp_coll_reduces(rule->coll) && rule->n_ranks > 2 ? ",1" : ",-1",
              fp);
    if (policy_has_gpu_column(origin))
        fprintf(fp, ",%s", origin->data->gpu);
    fprintf(fp, "\n");
}

/* Writes where more was wanted of rules than the least gain:
 * STP_DERIVE_OVER_LL, or captured iterations. */
static void policy_write_doubts(const struct stp_policy_origin *origin,
                                FILE *fp)
{
    bool doubts = false;

    for (size_t i = 0; i < origin->data->n_rows; i++) {
        const struct stp_measurement *m = &origin->data->rows[i];

        doubts |= m->arm.kind == STP_ARM_AUTO && m->coll == ncclFuncAllReduce &&
                  m->ran_proto == NCCL_PROTO_LL &&
                  (m->n_bytes < origin->captured.min ||
                   m->n_bytes > origin->captured.max);
    }
    if (doubts)
        fprintf(fp,
                "# Over all-reduces that NCCL runs by LL, another protocol's "
                "gain is at least %g percent, as LL is slower back to back "
                "than between other kernels, and no iterations of CUDA graphs "
                "say what is left of a smaller one.\n",
                STP_DERIVE_OVER_LL * 100);
    if (origin->captured.max > 0 && stp_dataset_n_iterations(origin->data) == 0)
        fprintf(fp,
                "# From %" PRIu64 " to %" PRIu64 " bytes a rule also makes "
                "iterations in which compute waits shorter, launched one by "
                "one or captured in a CUDA graph, and in neither longer.\n",
                origin->captured.min, origin->captured.max);
}

static void policy_write(const struct stp_derived *derived,
                         const struct stp_policy_origin *origin, FILE *fp)
{
    stp_same_bits_write(origin, fp);
    if (origin->why_not != NULL) {
        fprintf(fp,
                "# No rule: %s, so %s stands where communication overlaps "
                "with compute.\n",
                origin->why_not, STP_AUTO_WORDS(origin->data->tuner));
        return;
    }

    fputs("# from ", fp);
    stp_times_write(origin->data, fp);
    fprintf(fp,
            STP_BASELINE_BEGIN
            "%s is at least %g percent "
            "with 95 percent confidence, and goes on at neighbouring sizes "
            "where its arm is faster by less, with the same confidence.\n",
            STP_AUTO_WORDS(origin->data->tuner), origin->min_gain * 100);
    policy_write_doubts(origin, fp);
    if (origin->steadiness != NULL) {
        fputs("# ", fp);
        stp_steadiness_write(origin->steadiness, fp);
        fputc('\n', fp);
    }

    size_t n_live = 0, n_unchecked = 0; /* results of collectives alone */

    for (size_t i = 0; i < origin->data->n_rows; i++) {
        const struct stp_measurement *m = &origin->data->rows[i];

        if (m->source == STP_SOURCE_MEASURED &&
            m->work.mode == STP_MODE_ALONE) {
            n_live++;
            n_unchecked += m->n_wrong < 0;
        }
    }
    if (n_unchecked > 0)
        fprintf(fp,
                "# %zu of %zu results were not checked for wrong elements.\n",
                n_unchecked, n_live);

    /* A caveat on single passes, if they are trusted. */
    struct stp_source_count count = {0};

    stp_count_sources(origin->data, &count);
    if (origin->trusts_passes && count.n_single_pass > 0) {
        fputs("# Arms ran one after the other and not in interleaved rounds: "
              "drift between runs is in these numbers.\n",
              fp);
        if (origin->steadiness != NULL &&
            origin->steadiness->min_rounds < STP_DERIVE_PASSES)
            fprintf(fp,
                    "# Fewer than %d runs of an arm have no interval, and "
                    "decide nothing.\n",
                    STP_DERIVE_PASSES);
    }

    if (stp_dataset_n_iterations(origin->data) > 0) {
        /* The workloads whose iterations the rules rest on. */
        struct stp_workload work;
        bool has_fsdp = false;

        fputs("# Gains are of training iterations, over all rounds of these "
              "workloads, of which none is slower beyond noise:\n",
              fp);
        for (bool any = stp_next_workload(origin->data, NULL, &work); any;
             any = stp_next_workload(origin->data, &work, &work)) {
            fprintf(fp, "#   %s, %u layer%s, %s", stp_mode_name(work.mode),
                    work.layers, STP_S(work.layers),
                    stp_compute_name(work.compute));
            if (work.ratio > 0)
                fprintf(fp, ", ratio %g\n", work.ratio);
            else
                fprintf(fp, " of %u x %u x %u\n", work.gemm.m, work.gemm.n,
                        work.gemm.k);
            has_fsdp |= work.mode == STP_MODE_FSDP;
        }
        if (has_fsdp)
            fputs("# In fsdp allgather and reducescatter ran with the same "
                  "arm, so that both have its rules.\n",
                  fp);
    }
    if (policy_has_gpu_column(origin))
        fprintf(fp,
                "collective,min_bytes,max_bytes,algorithm,protocol,channels,"
                "nNodes,nRanks,%sgpu\n",
                origin->same_bits ? "numPipeOps," : "");

    if (derived->n_rules == 0) {
        fputs("# No rule: ", fp);
        stp_no_rule_write(origin, fp);
        fputs(".\n", fp);
    }
    for (size_t i = 0; i < derived->n_rules; i++)
        policy_write_rule(&derived->rules[i], origin, fp);
}

/* ---- marks ---- */

static const char run_key[] = "# run: ";
static const char hash_key[] = "# policy hash: ";

void stp_policy_hash_name(const struct stp_policy *policy,
                          char name[STP_POLICY_HASH_NAME])
{
    snprintf(name, STP_POLICY_HASH_NAME, "%016" PRIx64,
             stp_policy_hash(policy));
}

enum stp_status stp_policy_file_hash(const char *path,
                                     char hash_ret[STP_POLICY_HASH_NAME],
                                     struct stp_error *err)
{
    struct stp_policy *policy;

    STP_TRY(stp_policy_load_any(path, &policy, err));
    stp_policy_hash_name(policy, hash_ret);
    stp_policy_free(policy);
    return STP_OK;
}

void stp_policy_mark_read(const char *text, size_t len,
                          struct stp_policy_mark *mark)
{
    const char *const end = text + len, *line;
    size_t n;

    *mark = (struct stp_policy_mark){0};
    while ((line = stp_next_line(&text, end, &n)) != NULL) {
        stp_csv_value(line, n, run_key, mark->run, sizeof(mark->run));
        stp_csv_value(line, n, hash_key, mark->hash, sizeof(mark->hash));
    }
}

void stp_policy_text_begin(struct stp_policy_text *text)
{
    text->fp = stp_take_text(&text->text, &text->len);
}

/* The hash is of what follows, and no comment is part of it. */
enum stp_status stp_policy_text_end(struct stp_policy_text *text,
                                    const char *path, struct stp_error *err)
{
    char hash[STP_POLICY_HASH_NAME];
    struct stp_policy *policy;
    struct stp_file file;
    enum stp_status status;

    stp_end_text(text->fp);
    status = stp_policy_parse(text->kind, text->text, text->len, &policy, err);
    if (status == STP_OK) {
        stp_policy_hash_name(policy, hash);
        stp_policy_free(policy);
        status = stp_file_begin(path, &file, err);
    }
    if (status == STP_OK) {
        fprintf(file.fp, "# %s\n", text->made_by);
        if (text->run[0] != '\0')
            fprintf(file.fp, "%s%s\n", run_key, text->run);
        fprintf(file.fp, "%s%s\n", hash_key, hash);
        fwrite(text->text, 1, text->len, file.fp);
        status = stp_file_commit(&file, err);
    }
    free(text->text);
    return status;
}

enum stp_status stp_policy_file_save(const struct stp_derived *derived,
                                     const struct stp_policy_origin *origin,
                                     const char *path, struct stp_error *err)
{
    struct stp_policy_text text = {.kind = STP_POLICY_OF_ARMS,
                                   .made_by = origin->made_by,
                                   .run = origin->data->run};

    stp_policy_text_begin(&text);
    policy_write(derived, origin, text.fp);
    return stp_policy_text_end(&text, path, err);
}

/* ---- backups ---- */

/* The files beside a policy that say how it was verified. */
static const char *const proofs[] = {STP_POLICY_PROOF_TEXT,
                                     STP_POLICY_PROOF_CSV};

/* A link is kept as one, and so is the file that it names. */
enum stp_status stp_policy_back_up(const char *path,
                                   char backup_ret[STP_POLICY_BACKUP],
                                   struct stp_error *err)
{
    struct stat st;
    int result = -1;
    int len = 0;

    *backup_ret = '\0';
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return STP_OK; /* a device or a pipe keeps nothing */
    errno = EEXIST;
    for (unsigned n = 1; result != 0 && errno == EEXIST; n++) {
        len = snprintf(backup_ret, STP_POLICY_BACKUP, "%s.~%u~", path, n);
        errno = ENAMETOOLONG;
        if (len < STP_POLICY_BACKUP)
            result = stp_file_keep(path, backup_ret);
    }
    if (result == 0) {
        /* A proof goes with its policy, whose path is one that was kept. */
        char from[STP_POLICY_BACKUP + 32], to[STP_POLICY_BACKUP + 32];

        for (size_t i = 0; i < STP_N_OF(proofs); i++) {
            snprintf(from, sizeof(from), "%s%s", path, proofs[i]);
            snprintf(to, sizeof(to), "%s%s", backup_ret, proofs[i]);
            rename(from, to);
        }
        return STP_OK;
    }
    *backup_ret = '\0';
    return errno == ENOENT ? STP_OK
                           : stp_fail(err, STP_ERR_IO,
                                      "cannot keep '%.160s' as a backup: %s",
                                      path, strerror(errno));
}

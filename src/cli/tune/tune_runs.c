#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/tune/tune_job.h"
#include "core/policy/memory_policy.h"
#include "report/json.h"

enum { N_CHOICES = 4, MIN_ROUNDS = 2, MAX_WORDS = 4096 };

int stp_tune_runs(const struct stp_tune_job *job, bool has_learned,
                  struct cJSON *json)
{
    char stage[STP_CLI_PATH];
    /* In the order in which they are left out for want of runs, the last one
     * first.  Each differs from NCCL alone in one thing. */
    const struct {
        const char *option, *none, *file;
        const char *value; /* NULL: the file */
    } choices[N_CHOICES] = {
        {"--stage", "none", stage, NULL},
        {"--policy", "none", job->output, NULL},
        {"--env", "NCCL_MIN_CTAS=unset", NULL, "32"},
        {"--env", "NCCL_NVLS_ENABLE=unset", NULL, "0"},
    };
    char lists[N_CHOICES][STP_CLI_PATH + 64], rounds[32], limit[32];
    char *words[MAX_WORDS] = {"steptune compare"};
    int n = 1;
    unsigned n_arms = 1;
    char *text = NULL;
    size_t len;
    FILE *fp = stdout;
    int exit_status;

    snprintf(stage, sizeof(stage), "%s" STP_STAGE_SUFFIX, job->output);
    for (int i = 0; i < N_CHOICES; i++) {
        const char *file = choices[i].file;
        const bool is_policy = file == job->output;

        if ((file != NULL && access(file, R_OK) != 0) ||
            (is_policy && !has_learned) || (!is_policy && job->same_bits) ||
            2 * MIN_ROUNDS * (n_arms + 1) > job->runs)
            continue;
        snprintf(lists[i], sizeof(lists[i]), "%s=%s,%s", choices[i].option,
                 choices[i].none, file != NULL ? file : choices[i].value);
        words[n++] = lists[i];
        n_arms++;
    }
    if (job->same_bits && !has_learned)
        return stp_complain("--runs with --bits same compares the learned "
                            "policy alone, and the job learned none");
    if (job->same_bits)
        stp_complain("--bits same: the learned policy alone is compared, as "
                     "staging, more CTAs and no NVLS may change the order in "
                     "which sums add");
    if (n_arms == 1)
        return stp_complain("--runs %u: no arm can be compared in %d rounds of "
                            "two runs each, expected %d or more",
                            job->runs, MIN_ROUNDS, 4 * MIN_ROUNDS);
    snprintf(rounds, sizeof(rounds), "--rounds=%u", job->runs / (2 * n_arms));
    words[n++] = rounds;
    if (job->limit_s > 0) {
        snprintf(limit, sizeof(limit), "--for=%us", job->limit_s);
        words[n++] = limit;
    }
    if (job->json)
        words[n++] = "--json";
    words[n++] = "--";
    for (char **word = job->argv; *word != NULL; word++) {
        if (n + 1 == MAX_WORDS)
            return stp_complain("--runs: the command has more than %d words",
                                MAX_WORDS - N_CHOICES - 6);
        words[n++] = *word;
    }
    if (json != NULL && (fp = open_memstream(&text, &len)) == NULL)
        return stp_complain("out of memory");
    exit_status = stp_compare_into(n, words, fp);
    if (json != NULL) {
        fclose(fp);
        cJSON_AddItemToObject(json, "compared", cJSON_Parse(text));
        free(text);
    }
    return exit_status;
}

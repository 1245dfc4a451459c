/* contract.c - the verdicts of the contract suite */
#include <string.h>

#include "report/results/results.h"
#include "report/table.h"

void stp_print_contract(const struct stp_contract *contract, bool is_json,
                        FILE *fp)
{
    const size_t n_ok = stp_contract_count(contract, STP_CONTRACT_OK);
    const size_t n_failed = stp_contract_count(contract, STP_CONTRACT_FAIL);
    const size_t n_skipped = stp_contract_count(contract, STP_CONTRACT_SKIP);
    struct stp_table t = stp_table_result(is_json);

    if (!is_json) {
        int width = 0;

        for (size_t i = 0; i < contract->n_checks; i++) {
            int len = (int)strlen(contract->checks[i].name);

            width = len > width ? len : width;
        }
        for (size_t i = 0; i < contract->n_checks; i++) {
            const struct stp_contract_check *check = &contract->checks[i];
            bool has_text = check->text[0] != '\0';

            fprintf(fp, "%-4s  %-*s%s%s\n",
                    stp_contract_verdict_name(check->verdict),
                    has_text ? width : 0, check->name, has_text ? "  " : "",
                    check->text);
        }
        fprintf(fp, "\n%zu checks: %zu ok, %zu failed, %zu skipped\n",
                contract->n_checks, n_ok, n_failed, n_skipped);
    }
    stp_table_word(&t, "tuner", NULL, contract->name);
    stp_table_word(&t, "nccl", NULL, contract->nccl);
    stp_table_word(&t, "machine", NULL, contract->machine);
    stp_table_count(&t, "seed", NULL, contract->seed);
    stp_table_rows(&t, "checks");
    for (size_t i = 0; i < contract->n_checks; i++) {
        const struct stp_contract_check *check = &contract->checks[i];

        stp_table_row(&t);
        stp_table_word(&t, "name", NULL, check->name);
        stp_table_word(&t, "meaning", NULL, check->meaning);
        stp_table_word(&t, "verdict", NULL,
                       stp_contract_verdict_name(check->verdict));
        stp_table_word(&t, "text", NULL, check->text);
    }
    t.row = t.root;
    stp_table_count(&t, "ok", NULL, n_ok);
    stp_table_count(&t, "failed", NULL, n_failed);
    stp_table_count(&t, "skipped", NULL, n_skipped);
    stp_table_end(&t, fp);
}

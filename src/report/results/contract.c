#include "report/results/contract.h"

#include <string.h>

#include "report/json.h"

void stp_print_contract(const struct stp_contract *contract, FILE *fp)
{
    int width = 0;

    for (size_t i = 0; i < contract->n_checks; i++) {
        int len = (int)strlen(contract->checks[i].name);

        width = len > width ? len : width;
    }
    for (size_t i = 0; i < contract->n_checks; i++) {
        const struct stp_contract_check *check = &contract->checks[i];
        bool has_text = check->text[0] != '\0';

        fprintf(fp, "%-4s  %-*s%s%s\n",
                stp_contract_verdict_name(check->verdict), has_text ? width : 0,
                check->name, has_text ? "  " : "", check->text);
    }
    fprintf(fp, "\n%zu checks: %zu ok, %zu failed, %zu skipped\n",
            contract->n_checks, stp_contract_count(contract, STP_CONTRACT_OK),
            stp_contract_count(contract, STP_CONTRACT_FAIL),
            stp_contract_count(contract, STP_CONTRACT_SKIP));
}

enum stp_status stp_print_contract_json(const struct stp_contract *contract,
                                        FILE *fp, struct stp_error *err)
{
    static const struct {
        const char *key;
        enum stp_contract_verdict verdict;
    } counts[] = {{"ok", STP_CONTRACT_OK},
                  {"failed", STP_CONTRACT_FAIL},
                  {"skipped", STP_CONTRACT_SKIP}};
    cJSON *root = cJSON_CreateObject();
    cJSON *list;

    stp_json_word(root, "tuner", contract->name);
    stp_json_word(root, "nccl", contract->nccl);
    stp_json_word(root, "machine", contract->machine);
    list = cJSON_AddArrayToObject(root, "checks");
    for (size_t i = 0; i < contract->n_checks; i++) {
        const struct stp_contract_check *check = &contract->checks[i];
        cJSON *row = stp_json_row(list);

        stp_json_word(row, "name", check->name);
        stp_json_word(row, "meaning", check->meaning);
        stp_json_word(row, "verdict",
                      stp_contract_verdict_name(check->verdict));
        stp_json_word(row, "text", check->text);
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        stp_json_number(
            root, counts[i].key,
            (double)stp_contract_count(contract, counts[i].verdict));
    return stp_json_finish(root, fp, err);
}

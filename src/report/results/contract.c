#include "report/results/contract.h"

#include <string.h>

#include <cjson/cJSON.h>

static int longest_name(const struct stp_contract *contract)
{
    size_t longest = 0;

    for (size_t i = 0; i < contract->n_checks; i++) {
        size_t len = strlen(contract->checks[i].name);

        longest = len > longest ? len : longest;
    }
    return (int)longest;
}

static void print_check(const struct stp_contract_check *check, int width,
                        FILE *fp)
{
    const char *verdict = stp_contract_verdict_name(check->verdict);

    if (check->text[0] == '\0')
        fprintf(fp, "%-4s  %s\n", verdict, check->name);
    else
        fprintf(fp, "%-4s  %-*s  %s\n", verdict, width, check->name,
                check->text);
}

void stp_print_contract(const struct stp_contract *contract, FILE *fp)
{
    int width = longest_name(contract);

    for (size_t i = 0; i < contract->n_checks; i++)
        print_check(&contract->checks[i], width, fp);
    fprintf(fp, "\n%zu checks: %zu ok, %zu failed, %zu skipped\n",
            contract->n_checks, stp_contract_count(contract, STP_CONTRACT_OK),
            stp_contract_count(contract, STP_CONTRACT_FAIL),
            stp_contract_count(contract, STP_CONTRACT_SKIP));
}

static void add_check(cJSON *list, const struct stp_contract_check *check)
{
    cJSON *object = cJSON_CreateObject();

    if (object == NULL || !cJSON_AddItemToArray(list, object))
        return;
    cJSON_AddStringToObject(object, "name", check->name);
    cJSON_AddStringToObject(object, "meaning", check->meaning);
    cJSON_AddStringToObject(object, "verdict",
                            stp_contract_verdict_name(check->verdict));
    cJSON_AddStringToObject(object, "text", check->text);
}

static void add_count(cJSON *root, const char *key,
                      const struct stp_contract *contract,
                      enum stp_contract_verdict verdict)
{
    cJSON_AddNumberToObject(root, key,
                            (double)stp_contract_count(contract, verdict));
}

enum stp_status stp_print_contract_json(const struct stp_contract *contract,
                                        FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    char *text;
    cJSON *list;

    cJSON_AddStringToObject(root, "tuner", contract->name);
    cJSON_AddStringToObject(root, "nccl", contract->nccl);
    cJSON_AddStringToObject(root, "machine", contract->machine);
    list = cJSON_AddArrayToObject(root, "checks");
    for (size_t i = 0; i < contract->n_checks; i++)
        add_check(list, &contract->checks[i]);
    add_count(root, "ok", contract, STP_CONTRACT_OK);
    add_count(root, "failed", contract, STP_CONTRACT_FAIL);
    add_count(root, "skipped", contract, STP_CONTRACT_SKIP);
    text = cJSON_Print(root);
    cJSON_Delete(root);
    if (text == NULL)
        return stp_nomem(err);
    fprintf(fp, "%s\n", text);
    cJSON_free(text);
    return STP_OK;
}

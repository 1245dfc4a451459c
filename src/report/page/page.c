/* page.c - the page as a whole */
#include "report/page/page.h"

#include "core/names.h"
#include "report/file.h"
#include "report/json.h"
#include "report/page/page_data.h"
#include "report/table.h"

/* page.html, page.css and page.js */
extern const char stp_page_html[];
extern const char stp_page_css[];
extern const char stp_page_js[];

static void page_add_extreme(cJSON *root, const char *key,
                             const struct stp_page_extreme *extreme)
{
    cJSON *object;

    if (extreme->gain.n_pairs == 0) {
        cJSON_AddNullToObject(root, key);
        return;
    }
    object = cJSON_AddObjectToObject(root, key);
    cJSON_AddStringToObject(object, "collective", stp_coll_name(extreme->coll));
    stp_json_number(object, "bytes", (double)extreme->n_bytes);
    stp_json_number(object, "nRanks", extreme->n_ranks);
    stp_json_gain(object, &extreme->gain);
}

static void page_print_summary(const struct stp_page_data *data,
                               const struct stp_page_summary *summary,
                               bool as_json, FILE *fp)
{
    struct stp_table t = stp_table_result(as_json);
    char sentence[STP_PAGE_TEXT], source[STP_PAGE_TEXT];
    cJSON *warnings;

    stp_page_sentence(summary, sentence);
    if (!as_json) {
        fprintf(fp, "%s\n", sentence);
        for (size_t i = 0; i < data->n_warnings; i++)
            fprintf(fp, "%s\n", data->warnings[i]);
        return;
    }
    stp_table_word(&t, "summary", NULL, sentence);
    warnings = cJSON_AddArrayToObject(t.root, "warnings");
    for (size_t i = 0; i < data->n_warnings; i++)
        cJSON_AddItemToArray(warnings, cJSON_CreateString(data->warnings[i]));
    stp_table_word(&t, "run", NULL, data->run[0] != '\0' ? data->run : NULL);
    stp_json_tuner(t.root, stp_page_first_set(data)->data.tuner);
    stp_table_word(&t, "source", NULL,
                   stp_page_source_sentence(&data->files[STP_PAGE_SWEEP],
                                            STP_PAGE_N_SOURCES - STP_PAGE_SWEEP,
                                            source)
                       ? source
                       : NULL);
    stp_table_flag(&t, "policy", NULL, summary->has_policy);
    stp_table_flag(&t, "verified", NULL, summary->tried);
    stp_table_count(&t, "rules", NULL, summary->n_rules);
    stp_table_count(&t, "sizes", NULL, summary->n_sizes);
    stp_table_count(&t, "changed", NULL, summary->n_changed);
    stp_table_count(&t, "faster", NULL, summary->n_faster);
    stp_table_count(&t, "slower", NULL, summary->n_slower);
    stp_table_count(&t, "within_noise", NULL, summary->n_below);
    stp_table_count(&t, "not_measured", NULL, summary->n_unknown);
    stp_table_number(&t, "mean_gain", NULL, summary->mean_gain, 3);
    page_add_extreme(t.root, "best", &summary->best);
    page_add_extreme(t.root, "worst", &summary->worst);
    stp_table_end(&t, fp);
}

enum stp_status stp_page_save(const struct stp_page_sources *sources,
                              const char *path, bool as_json, FILE *said,
                              bool *auto_is_wrong_ret, struct stp_error *err)
{
    struct stp_page_data data;
    struct stp_page_summary summary;
    struct stp_file file;
    cJSON *view;
    enum stp_status status = stp_page_read(sources, &data, err);

    STP_THEN(status, stp_file_begin(path, &file, err));
    if (status == STP_OK) {
        stp_page_sum_up(&data, &summary);
        view = stp_page_view(&data, &summary);
        cJSON_AddStringToObject(view, "css", stp_page_css);
        cJSON_AddStringToObject(view, "js", stp_page_js);
        stp_page_fill(stp_page_html, view, file.fp);
        cJSON_Delete(view);
        status = stp_file_commit(&file, err);
    }
    if (status == STP_OK && said != NULL)
        page_print_summary(&data, &summary, as_json, said);
    if (status == STP_OK && auto_is_wrong_ret != NULL)
        *auto_is_wrong_ret = data.auto_is_wrong;
    stp_page_free(&data);
    return status;
}

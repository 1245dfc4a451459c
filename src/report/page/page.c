/* page.c - the page as a whole */
#include "report/page/page.h"

#include <stdint.h>

#include "core/names.h"
#include "report/file.h"
#include "report/html.h"
#include "report/json.h"
#include "report/page/page_parts.h"

static void write_lead(const char *sentence, bool bad, FILE *fp)
{
    fprintf(fp, "<p class=\"lead%s\">", bad ? " warn" : "");
    stp_html_text(sentence, fp);
    fputs("</p>\n", fp);
}

static void write_note(const char *of, const char *sentence, FILE *fp)
{
    if (sentence != NULL)
        fprintf(fp, "<p class=\"note\">%s: %s</p>\n", of, sentence);
}

static void write_summary(const struct stp_page_data *data, FILE *fp)
{
    const struct stp_page_set *sets = data->sets;
    struct stp_page_overlap overlap;
    char sentence[STP_PAGE_TEXT];

    stp_page_sentence(&data->summary, sentence);
    write_lead(sentence, data->summary.n_slower > 0, fp);
    stp_page_sum_up_overlap(&sets[STP_PAGE_OVERLAP_VERIFY].iterations,
                            &overlap);
    if (stp_page_overlap_sentence(&overlap, sentence))
        write_lead(sentence, overlap.n_slower > 0, fp);
    write_note("Collectives", stp_page_source_sentence(sets, 2), fp);
    write_note("Training steps",
               stp_page_source_sentence(&sets[STP_PAGE_ITERATIONS], 2), fp);
}

static void write_head(const struct stp_page_data *data, const char *title,
                       FILE *fp)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
          "charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
          "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n<meta "
          "name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
          "dark\">\n<title>",
          fp);
    stp_html_text(title, fp);
    fprintf(fp, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n",
            stp_page_style);
    fputs("<header><p class=\"brand\">Steptune</p><h1>", fp);
    stp_html_text(title, fp);
    fputs("</h1>\n", fp);
    write_summary(data, fp);
    fputs("</header>\n", fp);
}

/* A button for each; without a script they are hidden, and all is shown. */
static void write_picker(const struct stp_page_data *data, FILE *fp)
{
    if (data->n_panels < 2)
        return;
    fputs("<nav class=\"pick\" hidden aria-label=\"Collective\">", fp);
    for (size_t i = 0; i < data->n_panels; i++) {
        char name[STP_PAGE_NAME];

        stp_page_panel_name(data, &data->panels[i], name);
        fprintf(fp, "<button type=\"button\" data-panel=\"%zu\">%s</button>", i,
                name);
    }
    fputs("</nav>\n", fp);
}

static void write_panels(const struct stp_page_data *data, FILE *fp)
{
    if (data->n_panels == 0)
        return;
    fputs("<section><h2>Collectives by size</h2>\n", fp);
    write_picker(data, fp);
    for (size_t i = 0; i < data->n_panels; i++) {
        char name[STP_PAGE_NAME];

        stp_page_panel_name(data, &data->panels[i], name);
        fprintf(fp, "<div class=\"panel\" id=\"panel%zu\"><h3>%s</h3>\n", i,
                name);
        stp_page_write_plots(&data->panels[i], name, fp);
        fputs("</div>\n", fp);
    }
    fputs("</section>\n", fp);
}

static void write_policy(const struct stp_page_policy *policy, FILE *fp)
{
    if (policy->name == NULL)
        return;
    fputs("<h3><code>", fp);
    stp_html_text(policy->name, fp);
    fputs("</code></h3>\n<pre tabindex=\"0\">", fp);
    stp_html_bytes(policy->text, policy->len, fp);
    fputs("</pre>\n", fp);
}

static void write_policies(const struct stp_page_data *data, FILE *fp)
{
    if (data->policy.name == NULL && data->overlap.name == NULL)
        return;
    fputs("<section><h2>Policy files</h2>\n", fp);
    write_policy(&data->policy, fp);
    write_policy(&data->overlap, fp);
    fputs("</section>\n", fp);
}

static enum stp_status write_page(const struct stp_page_data *data, FILE *fp,
                                  struct stp_error *err)
{
    const char *title = data->title != NULL ? data->title
                        : data->policy.name != NULL
                            ? "What a policy for NCCL is worth"
                            : "NCCL, measured";
    enum stp_status status;

    write_head(data, title, fp);
    fputs("<section><h2>Machine and data</h2>\n", fp);
    stp_page_write_machine(data, fp);
    fputs("</section>\n", fp);
    if (data->n_panels > 0) {
        fputs("<section><h2>Rules</h2>\n", fp);
        stp_page_write_rules(data, fp);
        fputs("</section>\n", fp);
    }
    write_panels(data, fp);
    status = stp_page_write_iterations(data, fp, err);
    if (data->n_panels > 0) {
        fputs("<section><h2>All sizes</h2>\n", fp);
        stp_page_write_table(data, fp);
        fputs("</section>\n", fp);
    }
    write_policies(data, fp);
    fputs("<section><h2>How it was measured</h2>\n", fp);
    if (status == STP_OK)
        status = stp_page_write_method(data, fp, err);
    fprintf(fp,
            "</section>\n</main>\n<script>\n%s</script>\n</body>\n</html>\n",
            stp_page_script);
    return status;
}

static enum stp_status save(const struct stp_page_data *data, const char *path,
                            struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    status = write_page(data, file.fp, err);
    if (status == STP_OK)
        return stp_file_commit(&file, err);
    stp_file_abandon(&file);
    return status;
}

/* ---- what is said of it ---- */

typedef enum stp_status say_fn(const struct stp_page_data *data, FILE *fp,
                               struct stp_error *err);

static enum stp_status say_text(const struct stp_page_data *data, FILE *fp,
                                struct stp_error *err)
{
    char sentence[STP_PAGE_TEXT];

    (void)err;
    stp_page_sentence(&data->summary, sentence);
    fprintf(fp, "%s\n", sentence);
    return STP_OK;
}

static void add_extreme(cJSON *root, const char *key,
                        const struct stp_gain *gain, int coll, uint64_t n_bytes)
{
    cJSON *object;

    if (gain->n_pairs == 0) {
        cJSON_AddNullToObject(root, key);
        return;
    }
    object = cJSON_AddObjectToObject(root, key);
    cJSON_AddStringToObject(object, "collective", stp_coll_name(coll));
    stp_json_number(object, "bytes", (double)n_bytes);
    stp_json_gain(object, gain);
}

static enum stp_status say_json(const struct stp_page_data *data, FILE *fp,
                                struct stp_error *err)
{
    const struct stp_page_summary *s = &data->summary;
    const struct {
        const char *key;
        size_t n;
    } counts[] = {
        {"sizes", s->n_sizes},        {"changed", s->n_changed},
        {"faster", s->n_faster},      {"slower", s->n_slower},
        {"within_noise", s->n_below}, {"not_measured", s->n_unknown},
    };
    char sentence[STP_PAGE_TEXT];
    cJSON *root = cJSON_CreateObject();

    stp_page_sentence(s, sentence);
    cJSON_AddStringToObject(root, "summary", sentence);
    stp_json_word(root, "source",
                  stp_page_source_sentence(data->sets, STP_PAGE_N_SETS));
    cJSON_AddBoolToObject(root, "policy", s->has_policy);
    cJSON_AddBoolToObject(root, "verified", s->tried);
    stp_json_number(root, "rules", (double)s->n_rules);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        stp_json_number(root, counts[i].key, (double)counts[i].n);
    stp_json_number(root, "mean_gain", s->mean_gain);
    add_extreme(root, "best", &s->best, s->best_coll, s->best_bytes);
    add_extreme(root, "worst", &s->worst, s->worst_coll, s->worst_bytes);
    return stp_json_finish(root, fp, err);
}

static enum stp_status make(const struct stp_page_sources *sources,
                            const char *path, say_fn *say, FILE *said,
                            struct stp_error *err)
{
    struct stp_page_data data;
    enum stp_status status = stp_page_read(sources, &data, err);

    if (status == STP_OK)
        status = save(&data, path, err);
    if (status == STP_OK && said != NULL)
        status = say(&data, said, err);
    stp_page_free(&data);
    return status;
}

enum stp_status stp_page_save_and_say(const struct stp_page_sources *sources,
                                      const char *path, FILE *said,
                                      struct stp_error *err)
{
    return make(sources, path, say_text, said, err);
}

enum stp_status stp_page_save(const struct stp_page_sources *sources,
                              const char *path, struct stp_error *err)
{
    return make(sources, path, say_text, NULL, err);
}

enum stp_status
stp_page_save_and_say_json(const struct stp_page_sources *sources,
                           const char *path, FILE *said, struct stp_error *err)
{
    return make(sources, path, say_json, said, err);
}

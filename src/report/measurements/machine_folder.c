#include "report/measurements/machine_folder.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "report/file.h"
#include "report/measurements/measurements_row.h"
#include "report/table.h"

static const char machine_csv[] = "machine.csv";
static const char graphs_xml[] = "graphs.xml";
static const char choices_csv[] = "choices.csv";
static const char timings_csv[] = "timings.csv";
static const char overlap_csv[] = "overlap.csv";

const char *const stp_machine_files[] = {machine_csv, graphs_xml,  choices_csv,
                                         timings_csv, overlap_csv, NULL};

/* The first line of each file, but for how a comment begins and ends. */
static void machine_write_origin(const struct stp_machine_record *r,
                                 const char *content, FILE *fp)
{
    const struct stp_device_info *info = &r->info;
    char gpus[STP_GPUS_TEXT];

    fprintf(fp, "Recorded by %s on ", r->made_by);
    if (!info->is_live)
        fprintf(fp, "the recorded machine %s in mock NCCL, not on GPUs: ",
                info->machine);
    fputs(stp_gpus_text(info->n_ranks, info->n_gpus, info->gpu, gpus), fp);
    if (info->n_nodes > 1)
        fprintf(fp, " on %u nodes", info->n_nodes);
    fprintf(fp, ", NCCL %s: %s", info->nccl, content);
}

static void machine_write_head(const struct stp_machine_record *r,
                               const char *content, FILE *fp)
{
    fputs("# ", fp);
    machine_write_origin(r, content, fp);
    fputs(".\n", fp);
}

/* ---- machine.csv ---- */

static void machine_write_csv(const struct stp_machine_record *r, FILE *fp)
{
    const struct stp_device_info *info = &r->info;
    bool counted = r->n_channels > 0;

    machine_write_head(r, "as the driver and NCCL name them", fp);
    if (counted)
        fputs("# Channels are not what NCCL derives from the graphs, but the "
              "most that it had.\n",
              fp);
    fprintf(fp, "gpu,compute_capability,ranks,%snodes,cpu_vendor,%snccl\n",
            info->n_gpus > 0 ? "gpus," : "",
            counted ? "channels,nvls_channels," : "");
    fprintf(fp, "%s,%d,%u,", info->gpu, info->compute_capability,
            info->n_ranks);
    if (info->n_gpus > 0)
        fprintf(fp, "%u,", info->n_gpus);
    fprintf(fp, "%u,%s,", info->n_nodes, info->cpu_vendor);
    if (counted)
        fprintf(fp, "%d,%d,", r->n_channels, r->n_nvls_channels);
    fprintf(fp, "%s\n", info->nccl);
}

void stp_machine_count_channels(struct stp_machine_record *r)
{
    r->n_channels = r->n_nvls_channels = 0;
    for (size_t i = 0; i < r->choices.n_rows; i++) {
        const struct stp_nccl_choice *c = &r->choices.rows[i];
        int *most = c->algo == NCCL_ALGO_NVLS || c->algo == NCCL_ALGO_NVLS_TREE
                        ? &r->n_nvls_channels
                        : &r->n_channels;

        if (c->n_channels > *most)
            *most = c->n_channels;
    }
}

static void machine_write_choices(const struct stp_machine_record *r, FILE *fp)
{
    machine_write_head(r, "what NCCL asked a tuner that changed nothing", fp);
    fputs("# A row a question, and what NCCL then ran: sums, one collective at "
          "a time, since channels of single ones of a group are not seen.\n"
          "# bytes is nBytes as a tuner gets it; costs are microseconds with "
          "every digit (%.9g), -1 for what NCCL has ruled out.\n"
          "collective,bytes,group_ops,type,nNodes,nRanks,numPipeOps,regBuff,",
          fp);
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            fprintf(fp, "cost_%s_%s,", stp_algo_name(a), stp_proto_name(p));
    fputs("algo,proto,channels\n", fp);
    for (size_t i = 0; i < r->choices.n_rows; i++) {
        const struct stp_nccl_choice *c = &r->choices.rows[i];
        const struct stp_question *q = &c->question;

        fprintf(fp, "%s,%" PRIu64 ",1,%s,%u,%u,%d,%d,",
                stp_coll_name(c->what.coll), q->n_bytes,
                stp_type_name(c->what.type), r->info.n_nodes, r->info.n_ranks,
                q->n_pipe_ops, q->reg_buff);
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                fprintf(fp, "%.9g,", (double)q->cost[a][p]);
        fprintf(fp, "%s,%s,%d\n", stp_algo_name(c->algo),
                stp_proto_name(c->proto), c->n_channels);
    }
}

/* ---- timings.csv ---- */

#define COLUMNS                                                                \
    "collective,bytes,algorithm,protocol,channels,nRanks,run,round,iters,"     \
    "mean_us,median_us,p95_us,min_us"
/* Single collectives have an event behind each, those that the mean is of have
 * not: where the quickest of them took longer than that mean, all of them are
 * brought down until the median is the mean. */
static void machine_write_row(const struct stp_measurement *m, const char *run,
                              unsigned first_round,
                              const struct stp_measurement_header *header,
                              FILE *fp)
{
    struct stp_measurement_row row = {.m = *m, .run = run};
    struct stp_summary *us = &row.m.us;
    double factor = us->min > us->mean ? us->mean / us->median : 1;

    us->median *= factor;
    us->p95 = (isnan(us->p95) ? us->median : us->p95) * factor;
    us->min *= factor;
    row.m.round += first_round;
    stp_measurement_row_write(&row, header, fp);
}

/* Reads the columns of timings.csv or, with 'compute', of overlap.csv.  On GPUs
 * all times are measured; a machine in mock NCCL makes no better ones than it
 * has. */
static void machine_read_header(const struct stp_machine_record *r,
                                bool compute,
                                struct stp_measurement_header *header)
{
    static const char all[] = COLUMNS ",source,ran_kernel,bits,graph,layers,"
                                      "compute_us,m,n,k,mode";
    const struct stp_dataset *rows = compute ? &r->overlap.data : &r->window;
    const bool has_kernels = (r->info.setups >> STP_MEMORY_REG) != 0;
    const bool knows_bits = !compute && (stp_dataset_knows_bits(&r->window) ||
                                         stp_dataset_knows_bits(&r->sweep));
    bool has_graphs = false;
    char columns[sizeof(all)];

    for (size_t i = 0; i < rows->n_rows; i++)
        has_graphs |= rows->rows[i].graph;
    snprintf(columns, sizeof(columns), COLUMNS "%s%s%s%s%s",
             r->info.is_live ? "" : ",source", has_kernels ? ",ran_kernel" : "",
             knows_bits ? ",bits" : "", has_graphs ? ",graph" : "",
             compute ? ",layers,compute_us,m,n,k,mode" : "");
    stp_measurement_header_read(columns, header);
}

static void machine_write_names(const struct stp_measurement_header *header,
                                FILE *fp)
{
    for (size_t i = 0; i < header->n; i++)
        fprintf(fp, "%s%s", i > 0 ? "," : "", header->columns[i]->name);
    fputc('\n', fp);
}

static void machine_explain_source(const struct stp_machine_record *r, FILE *fp)
{
    if (!r->info.is_live)
        fprintf(fp,
                "# source: what the time was on %s, which this machine is "
                "recorded from.\n",
                r->info.machine);
}

/* Writes the rows of timings.csv, unless 'fp' is NULL; returns how many. */
static size_t machine_write_runs(const struct stp_machine_record *r, FILE *fp)
{
    const struct {
        const char *name;
        const struct stp_dataset *data;
        bool in_rounds;       /* times of single passes are no part of it */
        unsigned first_round; /* as files have it */
    } runs[] = {
        {"window", &r->window, true, 1},
        {"sweep", &r->sweep, false, 0},
    };
    struct stp_measurement_header header;
    size_t n = 0;

    machine_read_header(r, false, &header);
    if (fp != NULL)
        machine_write_names(&header, fp);
    for (size_t k = 0; k < sizeof(runs) / sizeof(runs[0]); k++)
        for (size_t i = 0; i < runs[k].data->n_rows; i++) {
            const struct stp_measurement *m = &runs[k].data->rows[i];

            if (!stp_source_decides(m->source) ||
                (runs[k].in_rounds && m->single_pass))
                continue;
            n++;
            if (fp != NULL)
                machine_write_row(m, runs[k].name, runs[k].first_round, &header,
                                  fp);
        }
    return n;
}

static void machine_write_timings(const struct stp_machine_record *r, FILE *fp)
{
    machine_write_head(r, "bf16 sums, collectives back to back", fp);
    fputs(
        "# run window: interleaved rounds; a round runs auto (NCCL's own "
        "choice) and every forced pair once at each size, and reg, sym and ce "
        "(its choice for buffers that are registered: ran_kernel) where "
        "NCCL has them.\n"
        "# run sweep, round 0: every pair and channel count once, not "
        "interleaved.\n"
        "# bytes is nBytes as a tuner gets it. Times are per collective, "
        "max over ranks, microseconds. channels 0: NCCL's own count.\n"
        "# graph 1: such a round, of collectives that were captured into a "
        "CUDA graph, where there are any.\n",
        fp);
    machine_explain_source(r, fp);
    machine_write_runs(r, fp);
}

static void machine_write_overlap(const struct stp_machine_record *r, FILE *fp)
{
    struct stp_measurement_header header;

    machine_read_header(r, true, &header);
    machine_write_head(r, "iterations of compute and bf16 sums", fp);
    fprintf(fp,
            "# An iteration of mode overlap is `layers` times a GEMM, each "
            "followed by a collective on a second stream of high priority; one "
            "join at the end.\n"
            "# Of mode fsdp, likewise an all-gather one layer before the GEMM "
            "and a reduce-scatter of the same size after it; of mode "
            "sequential, all GEMMs and then all collectives on one stream.\n"
            "# Interleaved rounds; a round runs every arm once; `iters` "
            "iterations a row.\n"
            "# compute_us: the GEMM (m x k times k x n) of one layer alone. "
            "Times are per iteration, max over ranks, microseconds. channels "
            "0: NCCL's own count.\n");
    machine_explain_source(r, fp);
    machine_write_names(&header, fp);
    for (size_t i = 0; i < r->overlap.data.n_rows; i++)
        machine_write_row(&r->overlap.data.rows[i], "overlap", 1, &header, fp);
}

/* ---- graphs.xml ---- */

/* Puts where they are from before what NCCL wrote. */
static enum stp_status machine_write_graphs(const struct stp_machine_record *r,
                                            const struct stp_folder *folder,
                                            struct stp_error *err)
{
    enum { MAX_GRAPHS = 64 << 20 };
    char path[STP_FOLDER_PATH];
    struct stp_file file;
    char *text = NULL;
    size_t len = 0;
    enum stp_status status = stp_folder_file(folder, graphs_xml, path, err);

    STP_THEN(status, stp_read_file(path, MAX_GRAPHS, &text, &len, err));
    if (status == STP_ERR_IO ||
        (status == STP_OK && strstr(text, "<graphs") == NULL))
        status =
            stp_fail(err, STP_ERR_DEVICE,
                     "NCCL wrote no search graphs: its communicator was made "
                     "without NCCL_GRAPH_DUMP_FILE");
    STP_THEN(status, stp_file_begin(path, &file, err));
    if (status == STP_OK) {
        /* "--" ends a comment in XML. */
        struct stp_machine_record safe = *r;

        for (char *s = safe.info.machine; *s != '\0'; s++)
            if (s[0] == '-' && s[1] == '-')
                *s = '_';
        fputs("<!-- ", file.fp);
        machine_write_origin(
            &safe, "NCCL's search graphs (NCCL_GRAPH_DUMP_FILE)", file.fp);
        fputs(". -->\n", file.fp);
        fwrite(text, 1, len, file.fp);
        status = stp_file_commit(&file, err);
    }
    free(text);
    return status;
}

/* ---- all of them ---- */

static enum stp_status
machine_write_file(const struct stp_machine_record *r,
                   const struct stp_folder *folder, const char *name,
                   void (*write)(const struct stp_machine_record *r, FILE *fp),
                   struct stp_error *err)
{
    char path[STP_FOLDER_PATH];
    struct stp_file file;

    STP_TRY(stp_folder_file(folder, name, path, err));
    STP_TRY(stp_file_begin(path, &file, err));
    write(r, file.fp);
    return stp_file_commit(&file, err);
}

enum stp_status stp_machine_write_info(const struct stp_machine_record *r,
                                       const struct stp_folder *folder,
                                       struct stp_error *err)
{
    return machine_write_file(r, folder, machine_csv, machine_write_csv, err);
}

enum stp_status stp_machine_write(const struct stp_machine_record *r,
                                  const struct stp_folder *folder,
                                  struct stp_error *err)
{
    const struct {
        const char *name;
        bool has_rows;
        void (*write)(const struct stp_machine_record *r, FILE *fp);
    } files[] = {
        {machine_csv, true, machine_write_csv},
        {choices_csv, r->choices.n_rows > 0, machine_write_choices},
        {timings_csv, machine_write_runs(r, NULL) > 0, machine_write_timings},
        {overlap_csv, r->overlap.data.n_rows > 0, machine_write_overlap},
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i].has_rows)
            STP_TRY(machine_write_file(r, folder, files[i].name, files[i].write,
                                       err));
    return machine_write_graphs(r, folder, err);
}

void stp_machine_record_free(struct stp_machine_record *r)
{
    stp_choices_free(&r->choices);
    stp_dataset_free(&r->window);
    stp_dataset_free(&r->sweep);
    stp_iterations_free(&r->overlap);
}

/* ---- what became of a recording ---- */

enum { MAX_SHOWN = 5, TEXT = 320 }; /* differences, and one of them */

static void recorded_describe(const struct stp_nccl_choice *nccl,
                              const struct stp_nccl_choice *mock,
                              char text[TEXT])
{
    enum { N_COSTS = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS };
    const float *p = &nccl->question.cost[0][0];
    const float *q = &mock->question.cost[0][0];
    int cost = 0; /* the first entry that differs */
    snprintf(text, TEXT,
             "%s %" PRIu64 " %s: NCCL %s/%s on %d channel%s, mock NCCL %s/%s "
             "on %d",
             stp_coll_name(nccl->what.coll), nccl->what.n_bytes,
             stp_type_name(nccl->what.type), stp_algo_name(nccl->algo),
             stp_proto_name(nccl->proto), nccl->n_channels,
             STP_S(nccl->n_channels), stp_algo_name(mock->algo),
             stp_proto_name(mock->proto), mock->n_channels);

    while (cost < N_COSTS &&
           (p[cost] == q[cost] || (p[cost] < 0 && q[cost] < 0)))
        cost++;
    if (cost < N_COSTS)
        stp_append(text, TEXT, "; cost of %s/%s %.9g us, mock NCCL %.9g",
                   stp_algo_name(cost / NCCL_NUM_PROTOCOLS),
                   stp_proto_name(cost % NCCL_NUM_PROTOCOLS), (double)p[cost],
                   (double)q[cost]);
}

size_t stp_recorded_alike(const struct stp_recorded *recorded)
{
    const struct stp_choices *nccl = &recorded->record->choices;
    size_t n = 0;

    for (size_t i = 0; i < nccl->n_rows; i++)
        n += stp_choice_equal(&nccl->rows[i], &recorded->mock->rows[i]);
    return n;
}

void stp_print_recorded(const struct stp_recorded *recorded, bool is_json,
                        FILE *fp)
{
    const struct stp_machine_record *r = recorded->record;
    const size_t n_times = machine_write_runs(r, NULL);
    const size_t n_alike = stp_recorded_alike(recorded);
    const size_t n_differ = r->choices.n_rows - n_alike;
    struct stp_table t = stp_table_result(is_json);
    char text[TEXT];
    size_t n_shown = 0;

    if (!is_json) {
        fprintf(fp,
                "%s\n\n%s: %zu time%s of collectives, %zu of iterations with "
                "compute\n%zu of %zu choices reproduced",
                r->info.what, recorded->path, n_times, STP_S(n_times),
                r->overlap.data.n_rows, n_alike, r->choices.n_rows);
        if (n_differ > 0)
            fprintf(fp, ", %zu differ%s", n_differ, n_differ == 1 ? "s" : "");
        fputc('\n', fp);
    }
    stp_table_rows(&t, "differences");
    stp_table_word(&t, "machine", NULL, r->info.what);
    stp_table_word(&t, "folder", NULL, recorded->path);
    stp_table_count(&t, "times", NULL, n_times);
    stp_table_count(&t, "times_of_iterations", NULL, r->overlap.data.n_rows);
    stp_table_count(&t, "choices", NULL, r->choices.n_rows);
    stp_table_count(&t, "reproduced", NULL, n_alike);
    for (size_t i = 0; i < r->choices.n_rows; i++) {
        if (stp_choice_equal(&r->choices.rows[i], &recorded->mock->rows[i]))
            continue;
        recorded_describe(&r->choices.rows[i], &recorded->mock->rows[i], text);
        if (is_json)
            cJSON_AddItemToArray(t.list, cJSON_CreateString(text));
        else if (n_shown++ < MAX_SHOWN)
            fprintf(fp, "  %s\n", text);
    }
    stp_table_end(&t, fp);
}

#include "stage/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/names.h"
#include "plugin/file.h"
#include "plugin/settings.h"
#include "plugin/thread.h"

enum { WRITE_MS = 1000, REPORT_BYTES = 1 << 16 };

void stp_tally_count(int coll, int type, uint64_t n_bytes, int ctas,
                     enum stp_plain why, bool is_captured)
{
    struct stp_stage *p = stp_stage();
    const int log2_bytes = n_bytes == 0 ? 0 : 63 - __builtin_clzll(n_bytes);
    struct stp_tally *row = p->rows;

    if (p->report[0] == '\0')
        return;
    pthread_mutex_lock(&p->lock);
    while (row < p->rows + p->n_rows &&
           (row->coll != coll || row->type != type ||
            row->log2_bytes != log2_bytes || row->ctas != ctas ||
            row->why != why))
        row++;
    if (row == p->rows + p->n_rows && p->n_rows < STP_N_ROWS) {
        *row = (struct stp_tally){coll, type, log2_bytes, ctas, why, 0, 0};
        p->n_rows++;
    }
    if (row < p->rows + p->n_rows) {
        row->n_calls++;
        row->n_captured += is_captured;
        p->has_news = true;
    }
    pthread_mutex_unlock(&p->lock);
}

static void report_print(const struct stp_stage *p, FILE *fp)
{
    static const char *const words[STP_N_PLAINS] = {
        [STP_STAGED] = "",
        [STP_PLAIN_RULE] = "rule",
        [STP_PLAIN_ROUNDS] = "rounds",
        [STP_PLAIN_OVERLAP] = "overlap",
        [STP_PLAIN_TYPE] = "type",
        [STP_PLAIN_PLACES] = "places",
        [STP_PLAIN_OWN_WINDOWS] = "own_windows",
        [STP_PLAIN_ENDED] = "ended",
        [STP_PLAIN_ASIDE] = "stepped_aside",
    };

    fputs("# calls of NCCL, by kind, and how many were staged\n", fp);
    if (p->aside_text[0] != '\0')
        fprintf(fp, "# stepped aside: %s\n", p->aside_text);
    if (!p->overlaps)
        fputs("# NCCL_WORKLOAD_OVERLAP=0\n", fp);
    fputs("collective,type,bytes_from,bytes_to,ctas,calls_staged,calls_plain,"
          "captured,why\n",
          fp);
    for (size_t i = 0; i < p->n_rows; i++) {
        const struct stp_tally *row = &p->rows[i];
        const bool is_staged = row->why == STP_STAGED;
        const uint64_t from = UINT64_C(1) << row->log2_bytes;

        fprintf(fp,
                "%s,%s,%" PRIu64 ",%" PRIu64 ",%d,%" PRIu64 ",%" PRIu64
                ",%" PRIu64 ",%s\n",
                stp_coll_name(row->coll), stp_type_name(row->type),
                row->log2_bytes == 0 ? 0 : from, 2 * from - 1, row->ctas,
                is_staged ? row->n_calls : 0, is_staged ? 0 : row->n_calls,
                row->n_captured, words[row->why]);
    }
}

void stp_tally_write(void)
{
    struct stp_stage *p = stp_stage();
    char path[STP_PATH_SIZE], temporary[STP_PATH_SIZE + 8];
    char buffer[REPORT_BYTES]; /* no call waits for the disk */
    bool is_written = false;
    FILE *fp;
    int fd;

    /* A child of fork() has its parent's counts, which are not its own. */
    if (p->report[0] == '\0' || p->pid != (int)getpid() ||
        snprintf(path, sizeof(path), "%s/%d.csv", p->report, p->pid) >=
            (int)sizeof(path))
        return;
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    pthread_mutex_lock(&p->report_lock);
    fd = stp_file_create(temporary);
    fp = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fp != NULL) {
        setvbuf(fp, buffer, _IOFBF, sizeof(buffer));
        pthread_mutex_lock(&p->lock);
        p->has_news = false;
        report_print(p, fp);
        pthread_mutex_unlock(&p->lock);
        is_written = fclose(fp) == 0 && rename(temporary, path) == 0;
    } else if (fd >= 0)
        close(fd);
    if (fd >= 0 && !is_written)
        unlink(temporary);
    if (!is_written && !p->is_unwritten)
        stp_say(true, "cannot write %s", path);
    p->is_unwritten |= !is_written;
    pthread_mutex_unlock(&p->report_lock);
}

static void tally_write_news(void *unused)
{
    if (stp_stage()->has_news)
        stp_tally_write();
}

void stp_tally_begin(void)
{
    struct stp_stage *p = stp_stage();
    const int pid = (int)getpid();
    struct stp_error err;

    pthread_mutex_lock(&p->lock);
    if (p->pid != pid && p->report[0] != '\0') {
        stp_thread_stop(p->writer); /* the parent's: only frees */
        p->writer = NULL;           /* without it all is written at the end */
        stp_thread_start(tally_write_news, NULL, WRITE_MS, &p->writer, &err);
    }
    p->pid = pid;
    pthread_mutex_unlock(&p->lock);
}

void stp_tally_end(void)
{
    struct stp_stage *p = stp_stage();

    stp_thread_stop(p->writer);
    p->writer = NULL;
    stp_tally_write();
}

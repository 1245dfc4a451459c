/* explain_log.c - `steptune explain FILE` of an NCCL log */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "core/names.h"
#include "core/text.h"
#include "report/measurements/nccl_log.h"
#include "report/table.h"

enum { MAX_LOG = 256 << 20 };

int stp_explain_log(const char *path, bool is_json)
{
    struct stp_table t = stp_table_result(is_json);
    char *text = NULL, *rest = NULL;
    struct stp_nccl_log log = {0};
    struct stp_error err;
    size_t len, rest_len;
    enum stp_status status = stp_read_file(path, MAX_LOG, &text, &len, &err);

    STP_THEN(status,
             stp_nccl_log_take(text, len, &rest, &rest_len, &log, &err));
    if (status == STP_OK && log.n_ran == 0)
        status =
            stp_fail(&err, STP_ERR_SYNTAX,
                     "no line says what a collective ran as, expected a "
                     "log of NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING");
    stp_table_rows(&t, "collectives");
    for (size_t i = 0; i < log.n_ran && status == STP_OK; i++) {
        const struct stp_nccl_ran *ran = &log.ran[i];

        stp_table_row(&t);
        stp_table_count(&t, "line", "line", ran->line);
        stp_table_word(&t, "collective", "?<collective",
                       stp_coll_name(ran->coll));
        stp_table_count(&t, "bytes", "bytes", ran->n_bytes);
        stp_table_ran(&t, NULL, "<runs", ran->algo, ran->proto, 0);
        stp_table_ran(&t, "choice", NULL, ran->algo, ran->proto, 0);
    }
    if (status == STP_OK)
        status = stp_table_end(&t, stdout, &err);
    else
        stp_table_free(&t);
    stp_nccl_log_free(&log);
    free(rest);
    free(text);
    return status == STP_OK ? STP_EXIT_OK : stp_complain_error(path, &err);
}

/*
 * page_view.h - the values that fill the page's template
 */
#ifndef STP_PAGE_VIEW_H
#define STP_PAGE_VIEW_H

#include <cjson/cJSON.h>

#include "report/page/page_summary.h"

/*
 * The values that page.html names, to be freed with cJSON_Delete().  Its member
 * "plots" is all that page.js draws.  What runs out of memory within cJSON is
 * missing.  STP_ERR_NOMEM otherwise.
 */
enum stp_status stp_page_view(const struct stp_page_data *data,
                              const struct stp_page_summary *summary,
                              cJSON **view_ret, struct stp_error *err);

#endif /* STP_PAGE_VIEW_H */

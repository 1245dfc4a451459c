#include "report/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/text.h"

enum { MOST_COLUMNS = 10000 };

size_t stp_terminal_columns(FILE *fp)
{
    const char *text = getenv("COLUMNS");
    struct winsize size;
    uint64_t columns;

    if (!isatty(fileno(fp)))
        return 0;
    if (text != NULL && stp_parse_u64(text, strlen(text), &columns) &&
        columns > 0 && columns <= MOST_COLUMNS)
        return (size_t)columns;
    return ioctl(fileno(fp), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

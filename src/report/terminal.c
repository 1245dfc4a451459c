#include "report/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/text.h"

enum { MOST_COLUMNS = 10000 };

size_t stp_terminal_columns(FILE *fp)
{
    /* The command's own stream for standard output has no number. */
    const int fd = fp == stdout ? STDOUT_FILENO : fileno(fp);
    const char *text = getenv("COLUMNS");
    struct winsize size;
    uint64_t columns;

    if (!isatty(fd))
        return 0;
    if (text != NULL && stp_parse_u64(text, strlen(text), &columns) &&
        columns > 0 && columns <= MOST_COLUMNS)
        return (size_t)columns;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

FILE *stp_paragraph_begin(struct stp_paragraph *p, FILE *out)
{
    *p = (struct stp_paragraph){.out = out};
    if (stp_terminal_columns(out) > 0)
        p->text = open_memstream(&p->buffer, &p->size);
    if (p->text == NULL)
        p->text = out;
    return p->text;
}

void stp_paragraph_end(struct stp_paragraph *p)
{
    const size_t columns = stp_terminal_columns(p->out);

    if (p->text != p->out && fclose(p->text) == 0)
        for (const char *s = p->buffer; *s != '\0';) {
            size_t len = strlen(s);

            if (len > columns)
                for (len = columns; len > 0 && s[len] != ' ';)
                    len--;
            if (len == 0)
                len = strcspn(s, " ");
            fprintf(p->out, "%.*s", (int)len, s);
            s += len + strspn(s + len, " ");
            if (*s != '\0')
                fputc('\n', p->out);
        }
    free(p->buffer);
    fputc('\n', p->out);
}

void stp_print_paragraph(const char *text, FILE *out)
{
    struct stp_paragraph p;

    fputs(text, stp_paragraph_begin(&p, out));
    stp_paragraph_end(&p);
}

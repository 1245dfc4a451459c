#include "report/charts/chart.h"

#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/take.h"
#include "report/file.h"

extern char **environ;
extern const char stp_frame_gp[];

const char *stp_plot_format_name(enum stp_plot_format format)
{
    return format == STP_PLOT_SVG ? "svg" : "png";
}

void stp_chart_begin(const char *first, const char *second, const char *columns,
                     struct stp_chart *chart)
{
    *chart = (struct stp_chart){.templates = {first, second}};
    chart->settings =
        stp_take_text(&chart->settings_text, &chart->settings_len);
    chart->data = stp_take_text(&chart->data_text, &chart->data_len);
    fprintf(chart->data, "#%s\n", columns);
}

void stp_chart_free(struct stp_chart *chart)
{
    if (chart->settings != NULL)
        fclose(chart->settings);
    if (chart->data != NULL)
        fclose(chart->data);
    free(chart->settings_text);
    free(chart->data_text);
    *chart = (struct stp_chart){.n_blocks = 0};
}

/* ---- settings ---- */

/* A string of gnuplot, without characters that would end or break it. */
static void chart_quote(const char *text, FILE *fp)
{
    fputc('\'', fp);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', fp);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, fp);
    }
    fputs("'\n", fp);
}

void stp_chart_text(struct stp_chart *chart, const char *name, const char *text)
{
    fprintf(chart->settings, "%s = ", name);
    chart_quote(text, chart->settings);
}

void stp_chart_set(struct stp_chart *chart, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vfprintf(chart->settings, fmt, va);
    va_end(va);
    fputc('\n', chart->settings);
}

void stp_chart_arrays(struct stp_chart *chart, size_t n, const char *names)
{
    while (*names != '\0') {
        const int len = (int)strcspn(names, " ");

        fprintf(chart->settings, "array %.*s[%zu]\n", len, names, n);
        names += len + (names[len] == ' ');
    }
}

void stp_chart_text_at(struct stp_chart *chart, const char *name, size_t i,
                       const char *text)
{
    fprintf(chart->settings, "%s[%zu] = ", name, i + 1);
    chart_quote(text, chart->settings);
}

/* ---- data ---- */

void stp_chart_block(struct stp_chart *chart)
{
    if (chart->n_blocks++ > 0)
        fputs("\n\n", chart->data);
}

void stp_chart_field(struct stp_chart *chart, const char *text)
{
    for (; *text != '\0'; text++) /* a row may begin with it: no comment */
        fputc((unsigned char)*text < ' ' || strchr("\"#", *text) != NULL
                  ? ' '
                  : *text,
              chart->data);
    fputc('\t', chart->data);
}

/* ---- gnuplot ---- */

void stp_chart_write(struct stp_chart *chart, enum stp_plot_format format,
                     FILE *fp)
{
    if (fflush(chart->settings) != 0 || fflush(chart->data) != 0 ||
        ferror(chart->settings) || ferror(chart->data))
        stp_end_without_memory();
    fprintf(fp, "format = '%s'\n$data << EOD\n%sEOD\ndata = '$data'\n%s\n%s",
            stp_plot_format_name(format), chart->data_text,
            chart->settings_text, stp_frame_gp);
    for (size_t i = 0; i < STP_CHART_TEMPLATES; i++)
        if (chart->templates[i] != NULL)
            fputs(chart->templates[i], fp);
}

/* An empty temporary file, which fclose() removes. */
static enum stp_status gnuplot_script(FILE **script_ret, struct stp_error *err)
{
    FILE *script = tmpfile();

    if (script == NULL)
        return stp_fail(err, STP_ERR_IO, "cannot make a temporary file: %s",
                        strerror(errno));
    *script_ret = script;
    return STP_OK;
}

/* Whether the picture has its format's end.  gnuplot succeeds even where it
 * could not write all of it. */
static bool gnuplot_is_whole(enum stp_plot_format format, FILE *drawn)
{
    static const char *const ends[] = {
        [STP_PLOT_PNG] = "IEND\xae\x42\x60\x82", [STP_PLOT_SVG] = "</svg>"};
    const size_t len = strlen(ends[format]);
    char tail[16] = "";
    const size_t most = sizeof(tail) - 1;
    const off_t size = lseek(fileno(drawn), 0, SEEK_END);
    ssize_t n = pread(fileno(drawn), tail, most,
                      size > (off_t)most ? size - (off_t)most : 0);

    while (format == STP_PLOT_SVG && n > 0 &&
           isspace((unsigned char)tail[n - 1]))
        n--;
    return n >= (ssize_t)len && memcmp(tail + n - len, ends[format], len) == 0;
}

static enum stp_status gnuplot_wait(pid_t pid, FILE *said, FILE *drawn,
                                    struct stp_error *err)
{
    char line[STP_ERROR_TEXT],
        text[STP_ERROR_TEXT] = "it said nothing (a full disk?)";
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return stp_fail(err, STP_ERR_IO, "lost gnuplot: %s",
                            strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
        lseek(fileno(drawn), 0, SEEK_END) > 0)
        return STP_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return stp_fail(err, STP_ERR_NOTHING,
                        "cannot run gnuplot to draw plots: install it (Debian: "
                        "gnuplot-nox), or name it in STEPTUNE_GNUPLOT");
    /* Finds the first error that gnuplot printed, if possible with its line. */
    rewind(said);
    while (fgets(line, sizeof(line), said) != NULL) {
        char *s = line + strspn(line, " \t");

        s[strcspn(s, "\r\n")] = '\0';
        if (*s == '\0' || *s == '^' || strncmp(s, "gnuplot>", 8) == 0)
            continue;
        snprintf(text, sizeof(text), "%.150s", s);
        if (strstr(s, "line ") != NULL)
            break; /* says where, too */
    }
    return stp_fail(err, STP_ERR_IO, "gnuplot failed: %s", text);
}

static enum stp_status gnuplot_draw(const char *program, FILE *script,
                                    FILE *drawn, struct stp_error *err)
{
    char *const argv[] = {(char *)(program != NULL ? program : "gnuplot"),
                          (char *)"-d", (char *)"-", NULL};
    posix_spawn_file_actions_t actions;
    FILE *said = NULL;
    enum stp_status status = STP_OK;
    int fds[3] = {fileno(script), fileno(drawn), -1};
    pid_t pid;

    STP_TRY(gnuplot_script(&said, err));
    fds[2] = fileno(said);
    if (ferror(script) || fflush(script) != 0 ||
        lseek(fileno(script), 0, SEEK_SET) != 0)
        status = stp_fail(err, STP_ERR_IO, "cannot write a temporary file: %s",
                          strerror(errno));
    if (status == STP_OK) {
        int error = posix_spawn_file_actions_init(&actions);

        for (int fd = 0; fd < 3 && error == 0; fd++)
            error = posix_spawn_file_actions_adddup2(&actions, fds[fd], fd);
        if (error == 0)
            error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (error != 0)
            status = stp_fail(
                err, STP_ERR_NOTHING,
                "cannot run '%.120s' to draw plots (%s): install it (Debian: "
                "gnuplot-nox), or name it in STEPTUNE_GNUPLOT",
                argv[0], strerror(error));
    }
    STP_THEN(status, gnuplot_wait(pid, said, drawn, err));
    fclose(said);
    return status;
}

enum stp_status stp_chart_save(struct stp_chart *chart,
                               enum stp_plot_format format, const char *gnuplot,
                               const char *path, struct stp_error *err)
{
    FILE *script = NULL;
    struct stp_file file;
    enum stp_status status;

    STP_TRY(gnuplot_script(&script, err));
    stp_chart_write(chart, format, script);
    status = stp_file_begin(path, &file, err);
    if (status == STP_OK) {
        status = gnuplot_draw(gnuplot, script, file.fp, err);
        if (status == STP_OK && !gnuplot_is_whole(format, file.fp))
            status = stp_fail(err, STP_ERR_IO,
                              "cannot write '%.160s': gnuplot cut it short, "
                              "expected a whole %s and room for it on the disk",
                              path, stp_plot_format_name(format));
        status = stp_file_end(&file, status, err);
    }
    fclose(script);
    return status;
}

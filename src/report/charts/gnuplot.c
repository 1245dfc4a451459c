#include "report/charts/gnuplot.h"

#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/file.h"

extern char **environ;

const char *stp_plot_format_name(enum stp_plot_format format)
{
    return format == STP_PLOT_SVG ? "svg" : "png";
}

enum stp_status stp_gnuplot_script(FILE **script_ret, struct stp_error *err)
{
    FILE *script = tmpfile();

    if (script == NULL)
        return stp_fail(err, STP_ERR_IO, "cannot make a temporary file: %s",
                        strerror(errno));
    *script_ret = script;
    return STP_OK;
}

/* The first error that gnuplot printed, if possible with its line. */
static void gnuplot_first_complaint(FILE *said, char *text, size_t size)
{
    char line[STP_ERROR_TEXT];

    snprintf(text, size, "it said nothing");
    rewind(said);
    while (fgets(line, sizeof(line), said) != NULL) {
        char *s = line + strspn(line, " \t");

        s[strcspn(s, "\r\n")] = '\0';
        if (*s == '\0' || *s == '^' || strncmp(s, "gnuplot>", 8) == 0)
            continue;
        snprintf(text, size, "%.150s", s);
        if (strstr(s, "line ") != NULL)
            return; /* says where, too */
    }
}

static enum stp_status gnuplot_spawn(const char *program, const int fds[3],
                                     pid_t *pid_ret, struct stp_error *err)
{
    char *const argv[] = {(char *)(program != NULL ? program : "gnuplot"),
                          (char *)"-d", (char *)"-", NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    for (int fd = 0; fd < 3 && error == 0; fd++)
        error = posix_spawn_file_actions_adddup2(&actions, fds[fd], fd);
    if (error == 0)
        error = posix_spawnp(pid_ret, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOTHING,
                    "cannot run '%.120s' to draw plots (%s): install it "
                    "(Debian: gnuplot-nox), or name it in STEPTUNE_GNUPLOT",
                    argv[0], strerror(error));
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
    char text[STP_ERROR_TEXT];
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
    gnuplot_first_complaint(said, text, sizeof(text));
    return stp_fail(err, STP_ERR_IO, "gnuplot failed: %s", text);
}

/* Runs it with the script as its input. */
static enum stp_status gnuplot_draw(const char *program, FILE *script,
                                    FILE *drawn, struct stp_error *err)
{
    FILE *said = NULL;
    enum stp_status status = stp_gnuplot_script(&said, err);
    pid_t pid;

    if (status != STP_OK)
        return status;
    if (ferror(script) || fflush(script) != 0 ||
        lseek(fileno(script), 0, SEEK_SET) != 0)
        status = stp_fail(err, STP_ERR_IO, "cannot write a temporary file: %s",
                          strerror(errno));
    if (status == STP_OK)
        status = gnuplot_spawn(
            program, (int[]){fileno(script), fileno(drawn), fileno(said)}, &pid,
            err);
    if (status == STP_OK)
        status = gnuplot_wait(pid, said, drawn, err);
    fclose(said);
    return status;
}

enum stp_status stp_gnuplot_run(const char *program, FILE *script,
                                enum stp_plot_format format, const char *path,
                                struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    status = gnuplot_draw(program, script, file.fp, err);
    if (status == STP_OK && !gnuplot_is_whole(format, file.fp))
        status = stp_fail(err, STP_ERR_IO,
                          "cannot write '%.160s': gnuplot cut it short, "
                          "expected a whole %s and room for it on the disk",
                          path, stp_plot_format_name(format));
    if (status == STP_OK)
        return stp_file_commit(&file, err);
    stp_file_abandon(&file);
    return status;
}

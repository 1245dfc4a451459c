/* terminal.h - the terminal that output goes to */
#pragma once

#include <stdio.h>

/* Columns of the terminal that 'fp' writes to: COLUMNS of the environment or,
 * without it, what the terminal says; 0 if 'fp' is no terminal, or if nobody
 * knows. */
size_t stp_terminal_columns(FILE *fp);

/* A paragraph, which is broken at blanks where it would be wider than the
 * terminal, and in one line elsewhere. */
struct stp_paragraph {
    FILE *out;
    FILE *text; /* 'out' itself if there is nothing to break */
    char *buffer;
    size_t size;
};

/* Begins one on 'out', and returns where to print its text; ends it with a
 * newline. */
FILE *stp_paragraph_begin(struct stp_paragraph *p, FILE *out);
void stp_paragraph_end(struct stp_paragraph *p);

/* One of which the text is there. */
void stp_print_paragraph(const char *text, FILE *out);

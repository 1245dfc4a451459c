/*
 * terminal.h - the terminal that output goes to
 */
#ifndef STP_TERMINAL_H
#define STP_TERMINAL_H

#include <stdio.h>

/* Columns of the terminal that 'fp' writes to: COLUMNS of the environment or,
 * without it, what the terminal says; 0 if 'fp' is no terminal, or if nobody
 * knows. */
size_t stp_terminal_columns(FILE *fp);

#endif /* STP_TERMINAL_H */

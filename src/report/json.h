/* json.h - values and objects that JSON of results has in common */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "bench/measurement.h"
#include "core/stats.h"
#include "core/status.h"

/* Before the first object is made: without memory for one the process ends, as
 * take.h says. */
void stp_json_begin(void);

/* A number; null if it is not finite. */
void stp_json_number(cJSON *object, const char *key, double value);

/* A word; null if it is NULL, unknown. */
void stp_json_word(cJSON *object, const char *key, const char *word);

/* Where data are from; the tuner that AUTO asks, unless it is "". */
void stp_json_origin(cJSON *object, const struct stp_dataset *data);
void stp_json_tuner(cJSON *object, const char *tuner);

/* A new object at the end of 'list', which owns it. */
cJSON *stp_json_row(cJSON *list);

/* An object with algorithm, protocol and channels; negative: not known. */
void stp_json_pair(cJSON *object, const char *key, int algo, int proto,
                   int n_channels);

/* gain, gain_low, gain_high and rounds. */
void stp_json_gain(cJSON *object, const struct stp_gain *gain);

/* Prints and frees 'root'. */
void stp_json_finish(cJSON *root, FILE *fp);

/* Whether the text begins as an object or a list of objects does, and not as
 * a line behind a launcher's "[0]". */
bool stp_json_looks(const char *text, size_t len);

/* STP_ERR_SYNTAX with the line and column of 'end' in 'text' (NULL: its begin),
 * after which it is not JSON; 'writer' writes the expected text. */
enum stp_status stp_json_refuse(const char *text, const char *end,
                                const char *writer, struct stp_error *err);

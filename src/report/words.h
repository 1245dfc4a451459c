/* words.h - words that tables and files have in common */
#pragma once

#include <stdint.h>

#include "analyse/explain/explain.h"
#include "analyse/wrong.h"
#include "bench/measurement.h"
#include "core/stats.h"
#include "core/status.h"

enum { STP_RAN_NAME = 32, STP_INTERVAL = 40, STP_SOURCES_TEXT = 256 };

/* An algorithm and protocol: "ring/ll128/16", "ring/ll128" with 0 channels, or
 * "-" if 'algo' is negative: unknown. */
#define STP_RAN_TEXT(algo, proto, n_channels)                                  \
    stp_ran_name(algo, proto, n_channels, (char[STP_RAN_NAME]){0})
const char *stp_ran_name(int algo, int proto, int n_channels,
                         char name[STP_RAN_NAME]);

/* "0.993 to 1.012"; without an interval "one round", or of more rounds "-". */
#define STP_INTERVAL_TEXT(gain) stp_interval_text(gain, (char[STP_INTERVAL]){0})
const char *stp_interval_text(const struct stp_gain *gain,
                              char text[STP_INTERVAL]);

/* The sign before item 'i', from 0, of 'n': "a, b and c". */
const char *stp_list_sign(size_t i, size_t n);

/* "8", "1K", "1.5M", "1G": powers of two. */
#define STP_SIZE_NAME(n_bytes) stp_size_name(n_bytes, (char[32]){0})
const char *stp_size_name(uint64_t n_bytes, char name[32]);

/* The ends of a range of sizes, in every table: "2M"; "19M" or "no end". */
void stp_range_names(const struct stp_range *range, char from[32], char to[32]);

/* For sentences: "1 MB", "1.5 MiB", "8 bytes": powers of ten where the size is
 * a round number of them. */
#define STP_SIZE_TEXT(n_bytes) stp_size_text(n_bytes, (char[32]){0})
const char *stp_size_text(uint64_t n_bytes, char text[32]);

/* "3 rounds were disturbed and ran again", and how many stayed; false if none
 * was disturbed. */
bool stp_again_text(size_t n_again, size_t n_disturbed,
                    char text[STP_SOURCES_TEXT]);

/* How many times are from where: "960 modelled", or "88 of 960 recorded, 872 of
 * 960 modelled"; and ", 12 of 960 in single passes" if some are. */
void stp_sources_text(const struct stp_source_count *count,
                      char text[STP_SOURCES_TEXT]);

/* The same, but "modelled" if all are. */
void stp_sources_words(const struct stp_source_count *count,
                       char text[STP_SOURCES_TEXT]);

/* "allreduce: ring/ll128 has 9 results with wrong elements, up to 5000 in one,
 * at 1M to 4M: it is left out there". */
void stp_wrong_text(const struct stp_wrong *wrong, char text[STP_ERROR_TEXT]);

/* "nccl", "rule" or "plugin". */
const char *stp_decider_name(enum stp_decider decider);

/* text.h - reading fields, numbers and sizes out of text, and files into memory
 *
 * A field is a (pointer, length) pair into a buffer that somebody else owns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct stp_field {
    const char *s;   /* not terminated */
    size_t len;      /* without the blanks around it */
    unsigned column; /* of its first byte in the line, from 1 */
};

/* Splits the 'len' bytes at 'line' at commas into at most 'max' fields, without
 * spaces and tabs around each.  Returns the number of fields that the line has,
 * which may be more than 'max'.  An empty line has one empty field. */
size_t stp_split(const char *line, size_t len, struct stp_field *fields,
                 size_t max);

/* The begin of a field in a message, for "%.*s". */
#define STP_SHOWN(field)                                                       \
    (int)((field)->len < 60 ? (field)->len : 60), (field)->s

/* Whether the field is this word, to the letter. */
bool stp_field_is(const struct stp_field *field, const char *word);

/* The place of a word of 'len' bytes among 'n'; -1 if it is none of them. */
int stp_find_word(const char *const *words, int n, const char *word,
                  size_t len);

/* Takes the next line off the text from *s up to 'end': returns its start, puts
 * its length, without the LF or CRLF that ends it, into *len_ret, and moves *s
 * behind it.  Returns NULL, and changes nothing, at the end. */
const char *stp_next_line(const char **s, const char *end, size_t *len_ret);

/* The text behind UTF-8's byte order mark, if it begins with one, and its
 * length without it. */
const char *stp_past_bom(const char *text, size_t *len);

/* Decimal digits and nothing else, at most UINT64_MAX.  False, and *value_ret
 * untouched, if it is anything else. */
bool stp_parse_u64(const char *s, size_t len, uint64_t *value_ret);

/* Like stp_parse_u64(), but one K, M or G, in either case, may follow: 2^10,
 * 2^20, 2^30. */
bool stp_parse_size(const char *s, size_t len, uint64_t *value_ret);

/* A finite decimal number such as 1.02, -3 or 2e-6, whatever the locale. */
bool stp_parse_double(const char *s, size_t len, double *value_ret);

/* Behind a noun of which there are 'n': "s", or nothing of one. */
#define STP_S(n) ((n) == 1 ? "" : "s")

/* Appends to the text in 'buf' of 'size' bytes what printf() would print, cut
 * to what there is room for. */
void stp_append(char *buf, size_t size, const char *fmt, ...) STP_PRINTF(3, 4);

/* The name of a file without its folders: 'path' after its last slash. */
const char *stp_base_name(const char *path);

/* Reads the file at 'path' whole, into *text_ret, to be freed with free(), with
 * a NUL behind its *len_ret bytes.  STP_ERR_IO (a directory, too),
 * STP_ERR_LIMIT above 'max' bytes, or STP_ERR_NOMEM; the text of *err does not
 * name the file. */
enum stp_status stp_read_file(const char *path, size_t max, char **text_ret,
                              size_t *len_ret, struct stp_error *err);

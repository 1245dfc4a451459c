/* names.h - the words of machine folders and of NCCL's log */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A list of words, which their indices number. */
struct mock_words {
    const char *const *words;
    int n_words;
};

extern const struct mock_words mock_colls;  /* "allreduce" */
extern const struct mock_words mock_algos;  /* "ring" */
extern const struct mock_words mock_protos; /* "ll128" */

/* As NCCL_ALGO and NCCL_PROTO spell them: "AllReduce", "NVLSTree", "Simple". */
extern const struct mock_words mock_variable_colls;
extern const struct mock_words mock_variable_algos;
extern const struct mock_words mock_variable_protos;

/* The index of 'word' in the list, or -1. */
int mock_word_find(const struct mock_words *list, const char *word);

/* The word for a number, or "?" if the list does not have it. */
const char *mock_word(const struct mock_words *list, int number);

/* The spelling of NCCL's log: "AllReduce", "NVLS_TREE", "LL128". */
const char *mock_coll_in_messages(int coll);
const char *mock_algo_in_messages(int algo);
const char *mock_proto_in_messages(int proto);

/* The floating-point type of that size, such as "ncclBfloat16", which is the
 * default type of a call; bytes for collectives that move bytes. */
const char *mock_type_in_messages(int coll, size_t element_size, bool fp8);

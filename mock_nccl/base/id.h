/*
 * id.h - the commIds of children
 */
#ifndef MOCK_ID_H
#define MOCK_ID_H

#include <stdint.h>

/* The commId of a child: a hash that distinguishes it from its parent and
 * siblings. */
uint64_t mock_child_id(uint64_t parent, uint64_t n_splits, int color);

#endif /* MOCK_ID_H */

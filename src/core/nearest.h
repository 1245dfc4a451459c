/* nearest.h - the word that was probably meant where another was written */
#pragma once

#include <stddef.h>

enum { STP_HINT = 80 };

/* "; did you mean 'ring'?" with the word of 'words' that the 'len' bytes at
 * 'word' miss by the fewest edits (a character more, less or another, or two
 * swapped; a beginning of three characters counts as one), or "" if that is
 * more than one edit and more than a third of 'len'.  'words' is a list or a
 * sentence: what lies before its last " of ", "and" and "or" are no words of
 * it.  Upper case is as good as lower case.  Returns 'hint'. */
const char *stp_hint_nearest(const char *word, size_t len, const char *words,
                             char hint[STP_HINT]);

#include "plugin/chunk.h"

#include <string.h>

void stp_chunk_note(struct stp_chunk_notes *notes, int coll,
                    const struct stp_choice *choice)
{
    static const struct stp_choice none = {.algo = -1, .proto = -1};

    if (coll < 0 || coll >= NCCL_NUM_TUNED_FUNCS)
        return;
    if (choice == NULL)
        choice = &none;
    if (notes->scheduling) /* the next group begins */
        memset(notes, 0, sizeof(*notes));
    if (!notes->coll[coll].noted) {
        notes->coll[coll].noted = true;
        notes->coll[coll].algo = (int8_t)choice->algo;
        notes->coll[coll].proto = (int8_t)choice->proto;
        notes->coll[coll].chunk_bytes = choice->chunk_bytes;
    } else if (notes->coll[coll].algo != choice->algo ||
               notes->coll[coll].proto != choice->proto ||
               notes->coll[coll].chunk_bytes != choice->chunk_bytes) {
        notes->coll[coll].mixed = true;
    }
}

size_t stp_chunk_find(struct stp_chunk_notes *notes, int coll, int algo,
                      int proto)
{
    notes->scheduling = true;
    if (coll < 0 || coll >= NCCL_NUM_TUNED_FUNCS || !notes->coll[coll].noted ||
        notes->coll[coll].mixed || notes->coll[coll].algo != algo ||
        notes->coll[coll].proto != proto)
        return 0;
    return notes->coll[coll].chunk_bytes;
}

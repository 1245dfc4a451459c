/* known.c - which sizes a machine's recording knows well */
#include "machine/machine.h"
#include "machine/timings.h"

size_t mock_machine_sizes(const struct mock_machine *machine, ncclFunc_t coll,
                          size_t *sizes, size_t max)
{
    const struct mock_timings *timings = machine->timings;
    size_t n = 0;

    if (timings == NULL || (unsigned)coll >= NCCL_NUM_TUNED_FUNCS)
        return 0;
    for (int i = 0; i < timings->n_sizes[coll]; i++) {
        if (timings->sizes[coll][i].is_single_pass)
            continue;
        if (n < max)
            sizes[n] = timings->sizes[coll][i].n_bytes;
        n++;
    }
    return n;
}

unsigned mock_machine_rounds(const struct mock_machine *machine)
{
    const struct mock_timings *timings = machine->timings;
    int least = 0;

    for (int coll = 0; timings != NULL && coll < NCCL_NUM_TUNED_FUNCS; coll++)
        for (int i = 0; i < timings->n_sizes[coll]; i++) {
            const struct mock_size *size = &timings->sizes[coll][i];

            if (!size->is_single_pass && (least == 0 || size->n_rounds < least))
                least = size->n_rounds;
        }
    return (unsigned)least;
}

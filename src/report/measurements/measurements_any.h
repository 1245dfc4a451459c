/*
 * measurements_any.h - measurements out of any kind of file that has some
 */
#ifndef STP_MEASUREMENTS_ANY_H
#define STP_MEASUREMENTS_ANY_H

#include "bench/measurement.h"

/*
 * Reads the file 'path' into *data, which is empty: our CSV, our JSON, or the
 * text or JSON of nccl-tests, told by its content.  'coll' is for text that
 * does not say which collective it is of (see stp_nccl_text_read()); -1 if
 * unknown. *data is empty after a failure.
 */
enum stp_status stp_measurements_load_any(const char *path, int coll,
                                          struct stp_dataset *data,
                                          struct stp_error *err);

#endif /* STP_MEASUREMENTS_ANY_H */

/* planted_clean.c - nothing is wrong about this one */
#include "planted.h"

PLANTED_TUNER("clean", planted_init, planted_ask, planted_finalize);

/* planted_no_name.c - says nothing about itself */
#include "planted.h"

PLANTED_TUNER(NULL, planted_init, planted_ask, planted_finalize);

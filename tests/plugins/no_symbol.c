/* A library, but no tuner. */
__attribute__((visibility("default"))) const int not_a_tuner = 1;

/* A library without a tuner. */
__attribute__((visibility("default"))) const int not_a_tuner = 1;

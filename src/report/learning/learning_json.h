/*
 * learning_json.h - the learned arms as a part of other JSON
 */
#ifndef STP_LEARNING_JSON_H
#define STP_LEARNING_JSON_H

#include <cjson/cJSON.h>

#include "report/learning/learning.h"

/* Adds an object "learning" to 'root'. */
void stp_json_learning(cJSON *root, const struct stp_learning *learning,
                       const struct stp_learning_setting *setting);

#endif /* STP_LEARNING_JSON_H */

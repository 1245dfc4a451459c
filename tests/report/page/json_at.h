// Values of JSON by their path.
#pragma once

#include <cjson/cJSON.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using Json = std::unique_ptr<cJSON, decltype(&cJSON_Delete)>;

inline Json ParseJson(const std::string &text)
{
    return Json(cJSON_Parse(text.c_str()), cJSON_Delete);
}

// The value at the end of a path of keys and indices.
inline const cJSON *At(const cJSON *json, const std::vector<const char *> &path)
{
    for (const char *key : path)
        json = cJSON_IsArray(json)
                   ? cJSON_GetArrayItem(json, std::atoi(key))
                   : cJSON_GetObjectItemCaseSensitive(json, key);
    return json;
}

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

// The same as text: "overlap", 1.08, null; nothing if it is not there.
inline std::string TextAt(const cJSON *json,
                          const std::vector<const char *> &path)
{
    const cJSON *value = At(json, path);
    char *text = value != nullptr ? cJSON_PrintUnformatted(value) : nullptr;
    const std::string s = text != nullptr ? text : "";
    cJSON_free(text);
    return s.size() > 1 && s[0] == '"' ? s.substr(1, s.size() - 2) : s;
}

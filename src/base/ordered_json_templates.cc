#include "base/json_templates.h"

SPILLWAY_JSON_TEMPLATES(template, nlohmann::ordered_json, nlohmann::ordered_map)

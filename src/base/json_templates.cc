#include "base/json_templates.h"

SPILLWAY_JSON_TEMPLATES(template, nlohmann::json, std::map)

#include "model/config_overrides.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/json_field.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTypeNames[] = {"type", "rope_type"};

void merge(Json& into, const Json& from) {
  // One kind of rope beside the name of another would be read as that.
  for (const std::string_view name : kTypeNames) {
    if (!from.contains(name)) continue;
    for (const std::string_view other : kTypeNames) into.erase(std::string(other));
  }
  for (const auto& [key, value] : from.items()) {
    Json& place = into[key];
    if (place.is_object() && value.is_object()) {
      merge(place, value);
    } else {
      place = value;
    }
  }
}

}  // namespace

std::string with_overrides(std::string config_json, std::string_view overrides, std::string_view where) {
  if (overrides.empty()) return config_json;
  (void)JsonDocument(config_json, where);
  auto json = parse_json<Json>(config_json, where);
  merge(json, parse_json<Json>(overrides, where));
  return json_text(json, 2) + "\n";
}

std::string override_advice(std::string_view where, std::string_view key, std::string_view value) {
  const std::string one = fmt::format("{}: {}", key, value);
  const bool is_nested = where.ends_with(": text_config");
  return fmt::format("write overrides_of_model_config: {{{}}} into the config of the run",
                     is_nested ? fmt::format("text_config: {{{}}}", one) : one);
}

}  // namespace spillway

#include "model/config_overrides.h"

#include <fmt/format.h>

#include <array>

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

std::string with_named_infinities(std::string config_json) {
  constexpr std::array<std::string_view, 3> kNumbers = {"-Infinity", "Infinity", "NaN"};
  bool is_string = false;
  for (size_t at = 0; at < config_json.size(); ++at) {
    if (config_json[at] == '"') is_string = !is_string;
    if (is_string && config_json[at] == '\\') ++at;
    if (is_string) continue;
    for (const std::string_view number : kNumbers) {
      if (config_json.compare(at, number.size(), number) != 0) continue;
      const std::string named = fmt::format(R"({{"__float__": "{}"}})", number);
      config_json.replace(at, number.size(), named);
      at += named.size() - 1;
      break;
    }
  }
  return config_json;
}

std::string override_advice(std::string_view where, std::string_view key, std::string_view value) {
  const std::string one = fmt::format("{}: {}", key, value);
  const bool is_nested = where.ends_with(": text_config");
  return fmt::format("write overrides_of_model_config: {{{}}} into the config of the run",
                     is_nested ? fmt::format("text_config: {{{}}}", one) : one);
}

}  // namespace spillway

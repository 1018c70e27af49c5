#include "base/json.h"

#include "base/error.h"

namespace spillway {

template <typename Json>
Json parse_json(std::string_view text, std::string_view where) {
  const auto check_depth = [where](int depth, typename Json::parse_event_t, Json&) {
    if (depth > kMaxJsonDepth) {
      throw input_error(where, "expected at most {} nested levels, got more; correct the file", kMaxJsonDepth);
    }
    return true;
  };
  return Json::parse(text, check_depth, /*allow_exceptions=*/false);
}

template <typename Json>
std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

template nlohmann::json parse_json(std::string_view, std::string_view);
template nlohmann::ordered_json parse_json(std::string_view, std::string_view);
template std::string json_text(const nlohmann::json&, int);
template std::string json_text(const nlohmann::ordered_json&, int);

}  // namespace spillway

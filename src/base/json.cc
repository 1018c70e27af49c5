#include "base/json.h"

#include "base/error.h"

namespace spillway {
namespace {

// Accepts everything, and remembers the position of a number that no double holds.
struct OverflowFinder {
  size_t end = 0;  // behind the number; 0: there is none
  std::string number;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool start_object(size_t) { return true; }
  bool key(std::string&) { return true; }
  bool end_object() { return true; }
  bool start_array(size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) {
    constexpr int kNumberOverflow = 406;
    if (error.id != kNumberOverflow) return false;
    end = position;
    number = token;
    return false;
  }
};

// Returns `text` with its numbers that are too large in quotes; empty if it is no JSON for another reason.
std::string with_quoted_overflows(std::string_view text) {
  constexpr int kMaxOverflows = 64;
  std::string quoted(text);
  for (int i = 0; i < kMaxOverflows; ++i) {
    OverflowFinder finder;
    if (nlohmann::json::sax_parse(quoted, &finder)) return quoted;
    if (finder.end < finder.number.size() || finder.number.empty()) return "";
    const size_t begin = finder.end - finder.number.size();
    if (quoted.compare(begin, finder.number.size(), finder.number) != 0) return "";
    quoted.insert(finder.end, 1, '"').insert(begin, 1, '"');
  }
  return "";
}

}  // namespace

template <typename Json>
Json parse_json(std::string_view text, std::string_view where) {
  const auto check_depth = [where](int depth, typename Json::parse_event_t, Json&) {
    if (depth > kMaxJsonDepth) {
      throw input_error(where, "expected at most {} nested levels, got more; correct the file", kMaxJsonDepth);
    }
    return true;
  };
  Json json = Json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  const std::string quoted = with_quoted_overflows(text);
  return quoted.empty() ? json : Json::parse(quoted, check_depth, /*allow_exceptions=*/false);
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

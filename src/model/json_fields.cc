#include "model/json_fields.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace spillway {
namespace {

// The value as one line of JSON, cut where it is long.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kLimit = 80;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  return text.size() > kLimit ? text.substr(0, kLimit) + "..." : text;
}

}  // namespace

JsonFields JsonFields::parse(std::string_view text, std::string_view where) {
  nlohmann::json json = parse_json(text, where);
  if (!json.is_object()) {
    throw input_error(where, "expected a JSON object, got {}; check that the file is complete",
                      json.is_discarded() ? "text that is not JSON" : std::string(json.type_name()));
  }
  return {std::move(json), std::string(where)};
}

const nlohmann::json* JsonFields::find(std::string_view key) const {
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonFields::is_in_use(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (!value) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() != 0;
  return value->is_string() ? !value->get_ref<const std::string&>().empty() : !value->empty();
}

int64_t JsonFields::checked_integer(const nlohmann::json& value, std::string_view key, int64_t low,
                                    int64_t high) const {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                               : value.is_number_integer();
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    throw input_error(where_, "expected {} to be an integer from {} to {}, got {}; correct the file", key, low, high,
                      shown(value));
  }
  return value.get<int64_t>();
}

int64_t JsonFields::integer(std::string_view key, int64_t low, int64_t high) const {
  const nlohmann::json* value = find(key);
  if (!value) throw input_error(where_, "expected {}, got no such key; check that the file is complete", key);
  return checked_integer(*value, key, low, high);
}

int64_t JsonFields::integer_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
  return is_set(key) ? integer(key, low, high) : fallback;
}

std::vector<int64_t> JsonFields::integers(std::string_view key, int64_t low, int64_t high) const {
  const nlohmann::json* value = find(key);
  if (!value || !value->is_array()) return {integer(key, low, high)};
  std::vector<int64_t> result;
  for (const nlohmann::json& item : *value) result.push_back(checked_integer(item, key, low, high));
  return result;
}

double JsonFields::real(std::string_view key, double low, double high) const {
  const nlohmann::json* value = find(key);
  if (!value) throw input_error(where_, "expected {}, got no such key; check that the file is complete", key);
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    throw input_error(where_, "expected {} to be a number from {} to {}, got {}; correct the file", key, low, high,
                      shown(*value));
  }
  return number;
}

double JsonFields::real_or(std::string_view key, double fallback, double low, double high) const {
  return is_set(key) ? real(key, low, high) : fallback;
}

bool JsonFields::boolean_or(std::string_view key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) {
    throw input_error(where_, "expected {} to be true or false, got {}; correct the file", key, shown(*value));
  }
  return value->get<bool>();
}

std::string JsonFields::string_or(std::string_view key, std::string_view fallback) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::string(fallback);
  if (!value->is_string()) {
    throw input_error(where_, "expected {} to be a string, got {}; correct the file", key, shown(*value));
  }
  return value->get<std::string>();
}

std::vector<std::string> JsonFields::strings(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (!value) return {};
  std::vector<std::string> result;
  bool fits = value->is_array();
  for (size_t i = 0; fits && i < value->size(); ++i) {
    fits = (*value)[i].is_string();
    if (fits) result.push_back((*value)[i].get<std::string>());
  }
  if (!fits)
    throw input_error(where_, "expected {} to be a list of strings, got {}; correct the file", key, shown(*value));
  return result;
}

JsonFields JsonFields::object(std::string_view key) const {
  const nlohmann::json* value = find(key);
  const std::string where = fmt::format("{} {}", where_, key);
  if (!value) return {nlohmann::json::object(), where};
  if (!value->is_object())
    throw input_error(where_, "expected {} to be an object, got {}; correct the file", key, shown(*value));
  return {*value, where};
}

}  // namespace spillway

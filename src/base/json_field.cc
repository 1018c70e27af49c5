#include "base/json_field.h"

#include <cmath>

#include "base/json.h"
#include "base/utf8.h"

namespace spillway {
namespace {

constexpr std::string_view kAdvice = "correct the file";

const nlohmann::json kNull, kEmpty = nlohmann::json::object();

// Returns the value as text, short enough for one line.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text.replace(57, text.npos, 3, '.');
  return text;
}

}  // namespace

JsonField JsonField::operator[](std::string_view key) const {
  if (!value_->is_object()) throw bad("an object", kAdvice);
  const auto found = value_->find(key);
  return {found == value_->end() ? kNull : *found, file_,
          path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

std::vector<JsonField> JsonField::elements() const {
  if (!value_->is_array()) throw bad("a list", kAdvice);
  std::vector<JsonField> result;
  for (size_t i = 0; i < value_->size(); ++i) result.push_back({(*value_)[i], file_, fmt::format("{}[{}]", path_, i)});
  return result;
}

std::vector<std::pair<std::string, JsonField>> JsonField::members() const {
  if (!value_->is_object()) throw bad("an object", kAdvice);
  std::vector<std::pair<std::string, JsonField>> result;
  for (auto it = value_->begin(); it != value_->end(); ++it) result.emplace_back(it.key(), (*this)[it.key()]);
  return result;
}

bool JsonField::is_in_use() const {
  if (is_null()) return false;
  if (value_->is_boolean()) return value_->get<bool>();
  if (value_->is_number()) return value_->get<double>() != 0;
  return is_string() ? !string().empty() : !value_->empty();
}

const std::string& JsonField::string() const {
  if (!value_->is_string()) throw bad("a string", kAdvice);
  return value_->get_ref<const std::string&>();
}

std::string JsonField::string_or(std::string_view otherwise) const {
  return is_null() ? std::string(otherwise) : string();
}

std::vector<std::string> JsonField::strings_or_none() const {
  std::vector<std::string> result;
  if (is_null()) return result;
  if (!is_array()) throw bad("a list of strings", kAdvice);
  for (const JsonField& item : elements()) result.push_back(item.string());
  return result;
}

const std::string& JsonField::character() const {
  const std::string& text = string();
  if (count_characters(text) != 1) throw bad("one character", kAdvice);
  return text;
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) throw bad("true or false", kAdvice);
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) throw bad("a number", kAdvice);
  return value_->get<double>();
}

double JsonField::real(double low, double high) const {
  const double number = value_->is_number() ? value_->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) throw bad(fmt::format("a number from {} to {}", low, high), kAdvice);
  return number;
}

double JsonField::real_or(double otherwise, double low, double high) const {
  return is_null() ? otherwise : real(low, high);
}

int64_t JsonField::integer(int64_t low, int64_t high) const {
  const bool fits = value_->is_number_unsigned() ? value_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                                 : value_->is_number_integer();
  if (!fits || value_->get<int64_t>() < low || value_->get<int64_t>() > high) {
    throw bad(fmt::format("an integer from {} to {}", low, high), kAdvice);
  }
  return value_->get<int64_t>();
}

int64_t JsonField::integer_or(int64_t otherwise, int64_t low, int64_t high) const {
  return is_null() ? otherwise : integer(low, high);
}

std::vector<int64_t> JsonField::integers(int64_t low, int64_t high) const {
  if (!is_array()) return {integer(low, high)};
  std::vector<int64_t> result;
  for (const JsonField& item : elements()) result.push_back(item.integer(low, high));
  return result;
}

JsonField JsonField::object_or_empty() const {
  if (!is_null() && !is_object()) throw bad("an object", kAdvice);
  return {is_null() ? kEmpty : *value_, file_, path_};
}

std::string JsonField::where() const { return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_); }

InputError JsonField::bad(std::string_view expected, std::string_view advice) const {
  return input_error(where(), "expected {}, got {}; {}", expected, is_null() ? "nothing" : shown(*value_), advice);
}

JsonDocument::JsonDocument(std::string_view text, std::string_view file) : file_(file), json_(parse_json(text, file)) {
  if (!json_.is_object()) {
    throw input_error(file, "expected a JSON object, got {}; check that it is complete",
                      json_.is_discarded() ? "text that is not JSON" : std::string(json_.type_name()));
  }
}

}  // namespace spillway

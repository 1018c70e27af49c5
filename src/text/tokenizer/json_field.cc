#include "text/tokenizer/json_field.h"

#include "base/utf8.h"

namespace spillway::text {
namespace {

const nlohmann::json kNull;

// What stands there, short enough for one line.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text.replace(57, text.npos, 3, '.');
  return text;
}

}  // namespace

JsonField JsonField::operator[](std::string_view key) const {
  if (!value_->is_object()) throw bad("an object", "compare with the published file");
  const auto found = value_->find(key);
  return {found == value_->end() ? kNull : *found, file_,
          path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

std::vector<JsonField> JsonField::elements() const {
  if (!value_->is_array()) throw bad("a list", "compare with the published file");
  std::vector<JsonField> result;
  for (size_t i = 0; i < value_->size(); ++i) result.push_back({(*value_)[i], file_, fmt::format("{}[{}]", path_, i)});
  return result;
}

std::vector<std::pair<std::string, JsonField>> JsonField::members() const {
  if (!value_->is_object()) throw bad("an object", "compare with the published file");
  std::vector<std::pair<std::string, JsonField>> result;
  for (auto it = value_->begin(); it != value_->end(); ++it) result.emplace_back(it.key(), (*this)[it.key()]);
  return result;
}

const std::string& JsonField::string() const {
  if (!value_->is_string()) throw bad("a string", "compare with the published file");
  return value_->get_ref<const std::string&>();
}

std::string JsonField::string_or(std::string_view otherwise) const {
  return is_null() ? std::string(otherwise) : string();
}

const std::string& JsonField::character() const {
  const std::string& text = string();
  if (count_characters(text) != 1) throw bad("one character", "compare with the published file");
  return text;
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) throw bad("true or false", "compare with the published file");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) throw bad("a number", "compare with the published file");
  return value_->get<double>();
}

int64_t JsonField::integer(int64_t most) const {
  const bool fits = value_->is_number_unsigned() && value_->get<uint64_t>() <= static_cast<uint64_t>(most);
  if (!fits) throw bad(fmt::format("an integer from 0 to {}", most), "compare with the published file");
  return value_->get<int64_t>();
}

std::string JsonField::where() const { return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_); }

InputError JsonField::bad(std::string_view expected, std::string_view advice) const {
  return input_error(where(), "expected {}, got {}; {}", expected, is_null() ? "nothing" : shown(*value_), advice);
}

}  // namespace spillway::text

// A value in a JSON document that knows its own path, so that errors can name it.
//
//   const JsonDocument document(text, "config.json");
//   document.root()["rope_scaling"]["factor"].real(0, 1e6);   // [config.json: rope_scaling.factor] expected a number
//   ...
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway {

// Borrows the document, which must live longer. A member that is null counts as absent. Every reader throws InputError
// with the path for a wrong type or range, and, except for those with `_or`, for an absent value.
class JsonField {
 public:
  JsonField(const nlohmann::json& document, std::string_view file) : value_(&document), file_(file) {}

  // Returns the member, or null if it is absent. Throws if this is no object.
  [[nodiscard]] JsonField operator[](std::string_view key) const;
  // Returns true if this is an object with the member, even if that is null.
  [[nodiscard]] bool has(std::string_view key) const { return value_->contains(key); }
  // Returns the elements of an array.
  [[nodiscard]] std::vector<JsonField> elements() const;
  // Returns the members of an object with their names.
  [[nodiscard]] std::vector<std::pair<std::string, JsonField>> members() const;

  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_string() const { return value_->is_string(); }
  [[nodiscard]] bool is_number() const { return value_->is_number(); }
  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_->is_array(); }
  // Returns true if the value switches something on: not null, false, 0, "", [] or {}.
  [[nodiscard]] bool is_in_use() const;

  [[nodiscard]] const std::string& string() const;
  [[nodiscard]] std::string string_or(std::string_view otherwise) const;
  // Returns a list of strings; empty if it is absent.
  [[nodiscard]] std::vector<std::string> strings_or_none() const;
  // Returns a string of one character.
  [[nodiscard]] const std::string& character() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] bool boolean_or(bool otherwise) const { return is_null() ? otherwise : boolean(); }
  [[nodiscard]] double number() const;
  // These return numbers in [low, high].
  [[nodiscard]] double real(double low, double high) const;
  [[nodiscard]] double real_or(double otherwise, double low, double high) const;
  [[nodiscard]] int64_t integer(int64_t low, int64_t high) const;
  [[nodiscard]] int64_t integer_or(int64_t otherwise, int64_t low, int64_t high) const;
  // Returns an integer or a list of integers as a list.
  [[nodiscard]] std::vector<int64_t> integers(int64_t low, int64_t high) const;
  // Returns this, or an empty object if it is absent.
  [[nodiscard]] JsonField object_or_empty() const;

  // Returns the path, "tokenizer.json: model.vocab".
  [[nodiscard]] std::string where() const;
  // Returns an error about this value: expected `expected`, got the value; do `advice`.
  [[nodiscard]] InputError bad(std::string_view expected, std::string_view advice) const;

 private:
  JsonField(const nlohmann::json& value, std::string_view file, std::string path)
      : value_(&value), file_(file), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string file_, path_;
};

// A file of one JSON object. Immovable: its fields point into it.
class JsonDocument {
 public:
  // Throws InputError if `text` is no JSON object.
  JsonDocument(std::string_view text, std::string_view file);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  [[nodiscard]] JsonField root() const { return {json_, file_}; }
  [[nodiscard]] const nlohmann::json& json() const { return json_; }

 private:
  std::string file_;
  nlohmann::json json_;
};

}  // namespace spillway

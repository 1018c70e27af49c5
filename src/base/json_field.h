// A place in a JSON document that knows its own path, so that what is wrong with it can be named.
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
// with the path on a wrong type or range, and, but for those with `_or`, on what is absent.
class JsonField {
 public:
  JsonField(const nlohmann::json& document, std::string_view file) : value_(&document), file_(file) {}

  // The member, or null where it is absent. Throws where this is no object.
  [[nodiscard]] JsonField operator[](std::string_view key) const;
  // Whether this is an object with the member, be it null.
  [[nodiscard]] bool has(std::string_view key) const { return value_->contains(key); }
  // The elements of an array.
  [[nodiscard]] std::vector<JsonField> elements() const;
  // The members of an object with their names.
  [[nodiscard]] std::vector<std::pair<std::string, JsonField>> members() const;

  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_string() const { return value_->is_string(); }
  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_->is_array(); }
  // Whether the value switches something on: not null, false, 0, "", [] or {}.
  [[nodiscard]] bool is_in_use() const;

  [[nodiscard]] const std::string& string() const;
  [[nodiscard]] std::string string_or(std::string_view otherwise) const;
  // A list of strings; empty where it is absent.
  [[nodiscard]] std::vector<std::string> strings_or_none() const;
  // A string of one character.
  [[nodiscard]] const std::string& character() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] bool boolean_or(bool otherwise) const { return is_null() ? otherwise : boolean(); }
  [[nodiscard]] double number() const;
  // Numbers in [low, high].
  [[nodiscard]] double real(double low, double high) const;
  [[nodiscard]] double real_or(double otherwise, double low, double high) const;
  [[nodiscard]] int64_t integer(int64_t low, int64_t high) const;
  [[nodiscard]] int64_t integer_or(int64_t otherwise, int64_t low, int64_t high) const;
  // An integer or a list of integers.
  [[nodiscard]] std::vector<int64_t> integers(int64_t low, int64_t high) const;
  // This, or an empty object where it is absent.
  [[nodiscard]] JsonField object_or_empty() const;

  // "tokenizer.json: model.vocab"
  [[nodiscard]] std::string where() const;
  // An error here: expected `expected`, got what stands here; do `advice`.
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
  // Throws InputError where `text` is no JSON object.
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

// A place in a JSON document that knows its own path, so that what is wrong with it can be named.
//
//   JsonField model(document, "tokenizer.json");
//   model["pre_tokenizer"]["behavior"].string();   // [tokenizer.json: pre_tokenizer.behavior] expected a string, ...
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spillway::text {

// Borrows the document, which must live longer. Every reader throws InputError with the path on a wrong type.
class JsonField {
 public:
  JsonField(const nlohmann::json& document, std::string_view file) : value_(&document), file_(file) {}

  // The member, or null where it is absent. Throws where this is no object.
  [[nodiscard]] JsonField operator[](std::string_view key) const;
  // The elements of an array.
  [[nodiscard]] std::vector<JsonField> elements() const;
  // The members of an object with their names.
  [[nodiscard]] std::vector<std::pair<std::string, JsonField>> members() const;

  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_string() const { return value_->is_string(); }
  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_->is_array(); }
  [[nodiscard]] const std::string& string() const;
  [[nodiscard]] std::string string_or(std::string_view otherwise) const;
  // A string of one character.
  [[nodiscard]] const std::string& character() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] bool boolean_or(bool otherwise) const { return is_null() ? otherwise : boolean(); }
  [[nodiscard]] double number() const;
  // In [0, most].
  [[nodiscard]] int64_t integer(int64_t most) const;

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

}  // namespace spillway::text

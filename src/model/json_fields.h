// Typed, bounded access to the keys of a JSON object that a user's file holds. Every mistake is an InputError that
// names the file, the key, what was expected and what was found. A key that is null counts as absent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

class JsonFields {
 public:
  // Throws where `text` is no JSON object.
  [[nodiscard]] static JsonFields parse(std::string_view text, std::string_view where);

  [[nodiscard]] const std::string& where() const { return where_; }
  // Whether the key is there, be it null.
  [[nodiscard]] bool has(std::string_view key) const { return json_.contains(key); }
  // Whether the key is there with a value.
  [[nodiscard]] bool is_set(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] bool is_string(std::string_view key) const { return is_set(key) && find(key)->is_string(); }

  // Whether the key has a value that switches something on: not null, false, 0, "", [] or {}.
  [[nodiscard]] bool is_in_use(std::string_view key) const;

  // Numbers must lie in [low, high]; without `_or` the key must be set.
  [[nodiscard]] int64_t integer(std::string_view key, int64_t low, int64_t high) const;
  [[nodiscard]] int64_t integer_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) const;
  // An integer or a list of integers.
  [[nodiscard]] std::vector<int64_t> integers(std::string_view key, int64_t low, int64_t high) const;
  [[nodiscard]] double real(std::string_view key, double low, double high) const;
  [[nodiscard]] double real_or(std::string_view key, double fallback, double low, double high) const;
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string string_or(std::string_view key, std::string_view fallback) const;
  // A list of strings; empty where the key is absent.
  [[nodiscard]] std::vector<std::string> strings(std::string_view key) const;
  // The object under `key`, empty where it is absent; its errors say "where key".
  [[nodiscard]] JsonFields object(std::string_view key) const;

 private:
  JsonFields(nlohmann::json json, std::string where) : json_(std::move(json)), where_(std::move(where)) {}
  // The value, or null where the key is absent or null.
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] int64_t checked_integer(const nlohmann::json& value, std::string_view key, int64_t low,
                                        int64_t high) const;

  nlohmann::json json_;
  std::string where_;
};

}  // namespace spillway

// The constants of an operation: a few named integers and reals, in the order in which they were set.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {

// The name of the attribute that an operation's output follows an axis by, where its inputs do not say which: passes
// that add axes to a graph rename these (graph/repeat_by_block.h).
inline constexpr std::string_view kAxisAttribute = "axis";

class Attributes {
 public:
  using Number = std::variant<int64_t, double>;

  Attributes() = default;
  // Names must be string literals: they are stored as views.
  Attributes(std::initializer_list<std::pair<std::string_view, Number>> entries);

  // REQUIRES: no constant has this name yet.
  void add(std::string_view name, Number number) { entries_.emplace_back(name, number); }
  // Replaces the number called `name`. Returns false if there is none.
  bool set(std::string_view name, Number number);
  // Each stops the program with the name if the constant is missing or of the other type.
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] int64_t integer_or(std::string_view name, int64_t fallback) const;
  [[nodiscard]] const std::vector<std::pair<std::string_view, Number>>& entries() const { return entries_; }
  bool operator==(const Attributes&) const = default;

 private:
  [[nodiscard]] const Number* find(std::string_view name) const;

  std::vector<std::pair<std::string_view, Number>> entries_;
};

// Returns text such as "eps=1e-05, group=64".
[[nodiscard]] std::string to_string(const Attributes& attributes);

}  // namespace spillway

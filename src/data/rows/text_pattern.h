// Texts with {names} in them, in the syntax of Python's str.format: {{ and }} are braces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::data {

class TextPattern {
 public:
  TextPattern() = default;
  // Throws InputError "[where] ..." for an unmatched brace and for a name that is not among `names`; empty `names`
  // allow any.
  TextPattern(std::string_view pattern, std::string_view where, std::span<const std::string_view> names = {});

  // Returns the text with each name replaced by `value_of(name)`, which may be called several times for a name.
  template <typename ValueOf>
  [[nodiscard]] std::string fill(ValueOf&& value_of) const {
    std::string text;
    for (const Piece& piece : pieces_) {
      text += piece.literal;
      if (!piece.name.empty()) text += value_of(std::string_view(piece.name));
    }
    return text;
  }

  [[nodiscard]] bool empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    std::string literal, name;  // the name comes after the literal; empty at the end
  };
  std::vector<Piece> pieces_;
};

}  // namespace spillway::data

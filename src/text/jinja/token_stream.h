// The parsers' position in the tokens of a template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"

namespace spillway::text::jinja {

// Names and operators are skipped or expected by their text. If an expected one is not at this position, throws
// SyntaxFailure with the line.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  [[nodiscard]] bool is(Token::Kind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is(Token::Kind kind, std::string_view text) const { return is(kind) && current().text == text; }
  [[nodiscard]] bool is_op(std::string_view op) const { return is(Token::Kind::kOperator, op); }
  [[nodiscard]] bool is_name(std::string_view name) const { return is(Token::Kind::kName, name); }
  // REQUIRES: the current token is not the end.
  [[nodiscard]] bool ahead_is(Token::Kind kind, std::string_view text) const {
    return tokens_[at_ + 1].kind == kind && tokens_[at_ + 1].text == text;
  }

  Token next();  // the end stays the end
  void back() { --at_; }
  void replace_last(Token token) { tokens_[--at_] = std::move(token); }  // and goes back to it

  bool skip_op(std::string_view op) { return skip(Token::Kind::kOperator, op); }
  bool skip_name(std::string_view name) { return skip(Token::Kind::kName, name); }
  void expect_op(std::string_view op);
  void expect_block_end();
  std::string expect_name(std::string_view what);
  [[noreturn]] void fail(std::string_view expected) const;

  [[nodiscard]] size_t position() const { return at_; }
  // Returns true if the name stands between that position and here.
  [[nodiscard]] bool named_since(size_t position, std::string_view name) const;

  // Bounds how deep the parsers recurse: one is on the stack of every function that can come back to itself.
  class Nested {
   public:
    explicit Nested(TokenStream& tokens);
    ~Nested() { --tokens_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    TokenStream& tokens_;
  };

 private:
  bool skip(Token::Kind kind, std::string_view text);
  [[nodiscard]] std::string describe() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace spillway::text::jinja

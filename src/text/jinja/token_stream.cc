#include "text/jinja/token_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::text::jinja {
namespace {

constexpr int kMaxBlockNesting = 100;  // of brackets and blocks

}  // namespace

Token TokenStream::next() {
  Token token = tokens_[at_];
  if (token.kind != Token::Kind::kEnd) ++at_;
  return token;
}

bool TokenStream::skip(Token::Kind kind, std::string_view text) {
  if (!is(kind, text)) return false;
  next();
  return true;
}

void TokenStream::expect_op(std::string_view op) {
  if (!skip_op(op)) fail(fmt::format("'{}'", op));
}

void TokenStream::expect_block_end() {
  if (!is(Token::Kind::kBlockEnd)) fail("'%}'");
  next();
}

std::string TokenStream::expect_name(std::string_view what) {
  if (!is(Token::Kind::kName)) fail(what);
  return next().text;
}

std::string TokenStream::describe() const {
  switch (current().kind) {
    case Token::Kind::kEnd:
      return "the end of the template";
    case Token::Kind::kBlockEnd:
      return "'%}'";
    case Token::Kind::kOutputEnd:
      return "'}}'";
    case Token::Kind::kString:
      return "a string";
    case Token::Kind::kText:
      return "text";
    default:
      return "'" + current().text + "'";
  }
}

void TokenStream::fail(std::string_view expected) const {
  throw SyntaxFailure{current().line, fmt::format("expected {}, got {}", expected, describe())};
}

bool TokenStream::named_since(size_t position, std::string_view name) const {
  return std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(position), tokens_.begin() + static_cast<ptrdiff_t>(at_),
                     [name](const Token& token) { return token.kind == Token::Kind::kName && token.text == name; });
}

TokenStream::Nested::Nested(TokenStream& tokens) : tokens_(tokens) {
  if (++tokens_.nesting_ > kMaxBlockNesting) {
    throw SyntaxFailure{tokens_.current().line,
                        fmt::format("expected at most {} levels of nesting, got more", kMaxBlockNesting)};
  }
}

}  // namespace spillway::text::jinja

#include "text/jinja/expression_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace spillway::text::jinja {
namespace {

constexpr int kMaxExprDepth = 400;

}  // namespace

ExprPtr make(Expr::Kind kind, int line) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr constant(Value value, int line) {
  ExprPtr expr = make(Expr::Kind::kConstant, line);
  expr->constant = std::move(value);
  return expr;
}

int64_t parse_integer(const Token& token) {
  const std::string& text = token.text;
  const char prefix = text.size() > 1 ? static_cast<char>(text[1] | 0x20) : '\0';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  try {
    return std::stoll(base == 10 ? text : text.substr(2), nullptr, base);
  } catch (const std::exception&) {
    throw SyntaxFailure{token.line, fmt::format("expected an integer of 64 bits, got {}", text)};
  }
}

void note_depth(Expr& parent, const Expr* child) {
  if (child == nullptr) return;
  parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMaxExprDepth) {
    throw SyntaxFailure{parent.line,
                        fmt::format("expected an expression at most {} operations deep, got more", kMaxExprDepth)};
  }
}

void adopt(Expr& parent, ExprPtr child) {
  note_depth(parent, child.get());
  parent.children.push_back(std::move(child));
}

}  // namespace spillway::text::jinja

// Makes nodes of expressions, and bounds their depth: the interpreter recurses over them.
#pragma once

#include <cstdint>
#include <utility>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace spillway::text::jinja {

[[nodiscard]] ExprPtr make(Expr::Kind kind, int line);
[[nodiscard]] ExprPtr constant(Value value, int line);
// Returns a literal's value. Throws SyntaxFailure beyond 64 bits.
[[nodiscard]] int64_t parse_integer(const Token& token);

// Counts an argument or a child (null: none) into the parent's depth. Throws SyntaxFailure for an expression that is
// too deep, long chains included.
void note_depth(Expr& parent, const Expr* child);
void adopt(Expr& parent, ExprPtr child);

template <typename... Children>
[[nodiscard]] ExprPtr make(Expr::Kind kind, int line, Children... children) {
  ExprPtr expr = make(kind, line);
  (adopt(*expr, std::move(children)), ...);
  return expr;
}

}  // namespace spillway::text::jinja

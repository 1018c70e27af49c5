// Parses expressions: the contents of {{ }}, tests of ifs, arguments.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace spillway::text::jinja {

// Parses from the current position of `tokens`, which it borrows. Throws SyntaxFailure.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExprPtr parse_expression();
  // Parses a, b, c without (necessarily) parentheses around; one expression without a comma is returned itself.
  ExprPtr parse_tuple(bool conditional, bool parenthesised);
  ExprPtr parse_list_as_text();  // a, b, c of a print statement
  // Parses | filter | filter: a chain whose innermost child is missing; returns null if there is none.
  ExprPtr parse_filter_chain();

  // Parse targets of assignments: names, and tuples of them; `set` takes an attribute too.
  ExprPtr parse_target();
  ExprPtr parse_target_name();
  ExprPtr parse_set_target();

  // Returns the number of filters and tests so far that do not exist. Under a condition they are an error only if they
  // are reached, as in Jinja: the statement forgives those beyond a count that it took before.
  [[nodiscard]] size_t unknown_count() const { return unknown_.size(); }
  void forgive_unknown(size_t count) { unknown_.resize(count); }
  void refuse_unknown() const;

 private:
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  // Takes the comparison operator at this position; returns "" if there is none (nothing consumed).
  std::string take_comparison();
  ExprPtr parse_compare();
  template <typename Next>
  ExprPtr parse_binary(std::initializer_list<std::string_view> ops, const Next& operand);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_name(const Token& token) const;
  ExprPtr parse_list(int line);
  ExprPtr parse_dict(int line);
  [[nodiscard]] bool at_tuple_end() const;
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_attribute(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscript_tuple(ExprPtr first);
  ExprPtr parse_call(ExprPtr node);
  void parse_arguments(Expr& call);
  std::string dotted_name(std::string_view what);
  // Parses filters, tests and calls on their results, from left to right.
  ExprPtr parse_filters(ExprPtr node);
  ExprPtr parse_filter(ExprPtr node);
  // Parses a test. Its single argument may stand without parentheses: `x is divisibleby 3`.
  ExprPtr parse_test(ExprPtr node);
  [[nodiscard]] bool starts_test_argument() const;

  TokenStream& tokens_;
  std::vector<SyntaxFailure> unknown_;
};

}  // namespace spillway::text::jinja

// Parses the suffixes of an operand: attributes, subscripts, calls, filters, tests.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/expression_nodes.h"
#include "text/jinja/expression_parser.h"

namespace spillway::text::jinja {
namespace {

using TokenKind = Token::Kind;

}  // namespace

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (tokens_.is_op(".")) {
      node = parse_attribute(std::move(node));
    } else if (tokens_.is_op("[")) {
      node = parse_subscript(std::move(node));
    } else if (tokens_.is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr node) {
  const int line = tokens_.next().line;
  if (tokens_.is(TokenKind::kInteger)) {
    ExprPtr index = constant(Value(parse_integer(tokens_.next())), line);
    return make(Expr::Kind::kItem, line, std::move(node), std::move(index));
  }
  std::string name = tokens_.expect_name("the name of an attribute");
  ExprPtr attribute = make(Expr::Kind::kAttribute, line, std::move(node));
  attribute->name = std::move(name);
  return attribute;
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr node) {
  const int line = tokens_.next().line;
  std::array<ExprPtr, 3> bounds;
  size_t colons = 0;
  while (!tokens_.is_op("]")) {
    if (tokens_.skip_op(":")) {
      if (++colons > 2) tokens_.fail("']'");
    } else if (bounds[colons] == nullptr) {
      bounds[colons] = parse_expression();
      if (colons == 0 && tokens_.is_op(",")) bounds[0] = parse_subscript_tuple(std::move(bounds[0]));
    } else {
      tokens_.fail("']'");
    }
  }
  tokens_.next();
  if (colons > 0) {
    return make(Expr::Kind::kSlice, line, std::move(node), std::move(bounds[0]), std::move(bounds[1]),
                std::move(bounds[2]));
  }
  if (bounds[0] == nullptr) tokens_.fail("an expression before ']'");
  return make(Expr::Kind::kItem, line, std::move(node), std::move(bounds[0]));
}

ExprPtr ExpressionParser::parse_subscript_tuple(ExprPtr first) {
  ExprPtr tuple = make(Expr::Kind::kTuple, tokens_.current().line, std::move(first));
  while (tokens_.skip_op(",")) adopt(*tuple, parse_expression());
  return tuple;
}

ExprPtr ExpressionParser::parse_call(ExprPtr node) {
  ExprPtr call = make(Expr::Kind::kCall, tokens_.current().line, std::move(node));
  parse_arguments(*call);
  return call;
}

void ExpressionParser::parse_arguments(Expr& call) {
  tokens_.expect_op("(");
  bool first = true, named = false;
  while (!tokens_.is_op(")")) {
    if (!first) tokens_.expect_op(",");
    if (tokens_.is_op(")")) break;
    first = false;
    Argument argument{Argument::Kind::kPositional, {}, nullptr};
    if (tokens_.skip_op("*")) {
      argument.kind = Argument::Kind::kSpread;
    } else if (tokens_.skip_op("**")) {
      argument.kind = Argument::Kind::kSpreadNamed;
      named = true;
    } else if (tokens_.is(TokenKind::kName) && tokens_.ahead_is(TokenKind::kOperator, "=")) {
      argument.kind = Argument::Kind::kNamed;
      argument.name = tokens_.next().text;
      tokens_.next();
      named = true;
    } else if (named) {
      tokens_.fail("a named argument after named arguments");
    }
    argument.value = parse_expression();
    note_depth(call, argument.value.get());
    call.arguments.push_back(std::move(argument));
  }
  tokens_.next();
}

std::string ExpressionParser::dotted_name(std::string_view what) {
  std::string name = tokens_.expect_name(what);
  while (tokens_.skip_op(".")) name += "." + tokens_.expect_name(what);
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr node) {
  for (;;) {
    if (tokens_.is_op("|")) {
      node = parse_filter(std::move(node));
    } else if (tokens_.is_name("is")) {
      node = parse_test(std::move(node));
    } else if (tokens_.is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_filter(ExprPtr node) {
  const int line = tokens_.next().line;
  std::string name = dotted_name("the name of a filter");
  if (!filter_exists(name)) unknown_.push_back({line, fmt::format("expected a filter of Jinja's, got '{}'", name)});
  ExprPtr filter = make(Expr::Kind::kFilter, line, std::move(node));
  filter->name = std::move(name);
  if (tokens_.is_op("(")) parse_arguments(*filter);
  return filter;
}

ExprPtr ExpressionParser::parse_test(ExprPtr node) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  std::string name = dotted_name("the name of a test");
  if (!test_exists(name)) unknown_.push_back({line, fmt::format("expected a test of Jinja's, got '{}'", name)});
  ExprPtr test = make(Expr::Kind::kTest, line, std::move(node));
  test->name = std::move(name);
  if (tokens_.is_op("(")) {
    parse_arguments(*test);
  } else if (starts_test_argument()) {
    if (tokens_.is_name("is")) tokens_.fail("one test at a time");
    ExprPtr argument = parse_postfix(parse_primary());
    note_depth(*test, argument.get());
    test->arguments.push_back({Argument::Kind::kPositional, {}, std::move(argument)});
  }
  return negated ? make(Expr::Kind::kNot, line, std::move(test)) : std::move(test);
}

bool ExpressionParser::starts_test_argument() const {
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return !tokens_.is_name("else") && !tokens_.is_name("or") && !tokens_.is_name("and");
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    default:
      return tokens_.is_op("[") || tokens_.is_op("{");
  }
}

}  // namespace spillway::text::jinja

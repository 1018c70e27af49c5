#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "text/jinja/expression_nodes.h"

namespace spillway::text::jinja {
namespace {

using TokenKind = Token::Kind;

}  // namespace

void ExpressionParser::refuse_unknown() const {
  if (!unknown_.empty()) throw SyntaxFailure(unknown_.front());
}

ExprPtr ExpressionParser::parse_expression() {
  const TokenStream::Nested nested(tokens_);
  const size_t unknown = unknown_.size();
  ExprPtr value = parse_or();
  while (tokens_.is_name("if")) {
    const int line = tokens_.next().line;
    ExprPtr test = parse_or();
    ExprPtr otherwise = tokens_.skip_name("else") ? parse_expression() : nullptr;
    value = make(Expr::Kind::kConditional, line, std::move(test), std::move(value), std::move(otherwise));
    unknown_.resize(unknown);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (tokens_.is_name("or")) {
    const int line = tokens_.next().line;
    left = make(Expr::Kind::kOr, line, std::move(left), parse_and());
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (tokens_.is_name("and")) {
    const int line = tokens_.next().line;
    left = make(Expr::Kind::kAnd, line, std::move(left), parse_not());
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_compare();
  const TokenStream::Nested nested(tokens_);
  const int line = tokens_.next().line;
  return make(Expr::Kind::kNot, line, parse_not());
}

std::string ExpressionParser::take_comparison() {
  static constexpr std::array<std::string_view, 6> kOps = {"==", "!=", "<", "<=", ">", ">="};
  if (tokens_.is(TokenKind::kOperator) && std::find(kOps.begin(), kOps.end(), tokens_.current().text) != kOps.end())
    return tokens_.next().text;
  if (tokens_.skip_name("in")) return "in";
  if (tokens_.is_name("not") && tokens_.ahead_is(TokenKind::kName, "in")) {
    tokens_.next();
    tokens_.next();
    return "not in";
  }
  return {};
}

ExprPtr ExpressionParser::parse_compare() {
  const int line = tokens_.current().line;
  ExprPtr first = parse_sum();
  std::string op = take_comparison();
  if (op.empty()) return first;
  ExprPtr chain = make(Expr::Kind::kCompare, line, std::move(first));
  for (; !op.empty(); op = take_comparison()) {
    chain->ops.push_back(op);
    adopt(*chain, parse_sum());
  }
  return chain;
}

template <typename Next>
ExprPtr ExpressionParser::parse_binary(std::initializer_list<std::string_view> ops, const Next& operand) {
  ExprPtr left = operand();
  while (tokens_.is(TokenKind::kOperator) && std::find(ops.begin(), ops.end(), tokens_.current().text) != ops.end()) {
    const Token op = tokens_.next();
    left = make(Expr::Kind::kBinary, op.line, std::move(left), operand());
    left->op = op.text;
  }
  return left;
}

ExprPtr ExpressionParser::parse_sum() {
  return parse_binary({"+", "-"}, [this] { return parse_concat(); });
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!tokens_.is_op("~")) return first;
  ExprPtr concat = make(Expr::Kind::kConcat, tokens_.current().line, std::move(first));
  while (tokens_.skip_op("~")) adopt(*concat, parse_product());
  return concat;
}

ExprPtr ExpressionParser::parse_product() {
  return parse_binary({"*", "/", "//", "%"}, [this] { return parse_power(); });
}

ExprPtr ExpressionParser::parse_power() {
  return parse_binary({"**"}, [this] { return parse_unary(true); });
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const TokenStream::Nested nested(tokens_);
  const int line = tokens_.current().line;
  ExprPtr node;
  if (tokens_.skip_op("-")) {
    node = make(Expr::Kind::kNegate, line, parse_unary(false));
  } else if (tokens_.skip_op("+")) {
    node = make(Expr::Kind::kPlus, line, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token token = tokens_.next();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name(token);
    case TokenKind::kString: {
      std::string text = token.text;
      while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
      return constant(Value(std::move(text)), token.line);
    }
    case TokenKind::kInteger:
      return constant(Value(parse_integer(token)), token.line);
    case TokenKind::kFloat:
      return constant(Value(std::strtod(token.text.c_str(), nullptr)), token.line);
    case TokenKind::kOperator:
      if (token.text == "(") {
        ExprPtr inner = parse_tuple(true, true);
        tokens_.expect_op(")");
        return inner;
      }
      if (token.text == "[") return parse_list(token.line);
      if (token.text == "{") return parse_dict(token.line);
      [[fallthrough]];
    default:
      if (token.kind != TokenKind::kEnd) tokens_.back();
      tokens_.fail("an expression");
  }
}

ExprPtr ExpressionParser::parse_name(const Token& token) const {
  if (token.text == "true" || token.text == "True") return constant(Value(true), token.line);
  if (token.text == "false" || token.text == "False") return constant(Value(false), token.line);
  if (token.text == "none" || token.text == "None") return constant(Value(), token.line);
  ExprPtr expr = make(Expr::Kind::kName, token.line);
  expr->name = token.text;
  return expr;
}

ExprPtr ExpressionParser::parse_list(int line) {
  ExprPtr list = make(Expr::Kind::kList, line);
  while (!tokens_.is_op("]")) {
    if (!list->children.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("]")) break;
    adopt(*list, parse_expression());
  }
  tokens_.expect_op("]");
  return list;
}

ExprPtr ExpressionParser::parse_dict(int line) {
  ExprPtr dict = make(Expr::Kind::kDict, line);
  while (!tokens_.is_op("}")) {
    if (!dict->children.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("}")) break;
    adopt(*dict, parse_expression());
    tokens_.expect_op(":");
    adopt(*dict, parse_expression());
  }
  tokens_.expect_op("}");
  return dict;
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.is(TokenKind::kOutputEnd) || tokens_.is(TokenKind::kBlockEnd) || tokens_.is_op(")") ||
         tokens_.is_name("recursive");
}

ExprPtr ExpressionParser::parse_tuple(bool conditional, bool parenthesised) {
  const int line = tokens_.current().line;
  std::vector<ExprPtr> items;
  bool comma = false;
  while (!at_tuple_end()) {
    items.push_back(conditional ? parse_expression() : parse_or());
    if (!tokens_.is_op(",")) break;
    comma = true;
    tokens_.next();
  }
  if (!comma && items.size() == 1) return std::move(items.front());
  if (items.empty() && !parenthesised) tokens_.fail("an expression");
  ExprPtr tuple = make(Expr::Kind::kTuple, line);
  for (ExprPtr& item : items) adopt(*tuple, std::move(item));
  return tuple;
}

ExprPtr ExpressionParser::parse_target_name() {
  const Token token = tokens_.current();
  if (tokens_.skip_op("(")) {
    ExprPtr inner = parse_target();
    tokens_.expect_op(")");
    return inner;
  }
  ExprPtr name = make(Expr::Kind::kName, token.line);
  name->name = tokens_.expect_name("the name of a variable");
  return name;
}

ExprPtr ExpressionParser::parse_target() {
  const TokenStream::Nested nested(tokens_);
  const int line = tokens_.current().line;
  ExprPtr first = parse_target_name();
  if (!tokens_.is_op(",")) return first;
  ExprPtr tuple = make(Expr::Kind::kTuple, line, std::move(first));
  while (tokens_.skip_op(",")) {
    if (!tokens_.is(TokenKind::kName) && !tokens_.is_op("(")) break;
    if (tokens_.is_name("in")) break;
    adopt(*tuple, parse_target_name());
  }
  return tuple;
}

ExprPtr ExpressionParser::parse_set_target() {
  const int line = tokens_.current().line;
  ExprPtr target = parse_target();
  if (target->kind != Expr::Kind::kName || !tokens_.skip_op(".")) return target;
  ExprPtr attribute = make(Expr::Kind::kAttribute, line, std::move(target));
  attribute->name = tokens_.expect_name("the name of an attribute");
  return attribute;
}

ExprPtr ExpressionParser::parse_list_as_text() {
  ExprPtr concat = make(Expr::Kind::kConcat, tokens_.current().line, parse_expression());
  while (tokens_.skip_op(",")) adopt(*concat, parse_expression());
  return concat;
}

ExprPtr ExpressionParser::parse_filter_chain() {
  ExprPtr chain;
  while (tokens_.is_op("|")) chain = parse_filter(std::move(chain));
  return chain;
}

}  // namespace spillway::text::jinja

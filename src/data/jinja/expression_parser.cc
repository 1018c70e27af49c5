#include "data/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "data/jinja/builtins.h"

namespace spillway::data::jinja {
namespace {

using TokenKind = Token::Kind;

constexpr int kMaxExprDepth = 400;  // of one expression's tree, long chains included: the interpreter recurses

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

ExprPtr make(Expr::Kind kind, int line) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
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

template <typename... Children>
ExprPtr make(Expr::Kind kind, int line, Children... children) {
  ExprPtr expr = make(kind, line);
  (adopt(*expr, std::move(children)), ...);
  return expr;
}

ExprPtr constant(Value value, int line) {
  ExprPtr expr = make(Expr::Kind::kConstant, line);
  expr->constant = std::move(value);
  return expr;
}

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

}  // namespace spillway::data::jinja

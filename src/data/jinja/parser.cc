#include "data/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "data/jinja/builtins.h"

namespace spillway::data::jinja {
namespace {

using TokenKind = Token::Kind;

constexpr int kMaxNesting = 100;    // of brackets and blocks: the parser recurses
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

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Template run() {
    Template result;
    result.body = parse_body({});
    if (!unknown_.empty()) throw SyntaxFailure(unknown_.front());
    result.marks_generation = marks_generation_;
    return result;
  }

 private:
  // --- tokens ---
  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  Token next() {
    Token token = tokens_[at_];
    if (token.kind != TokenKind::kEnd) ++at_;
    return token;
  }
  [[nodiscard]] bool is(TokenKind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is(TokenKind kind, std::string_view text) const { return is(kind) && current().text == text; }
  [[nodiscard]] bool is_op(std::string_view op) const { return is(TokenKind::kOperator, op); }
  [[nodiscard]] bool is_name(std::string_view name) const { return is(TokenKind::kName, name); }
  bool skip(TokenKind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    next();
    return true;
  }
  bool skip_op(std::string_view op) { return skip(TokenKind::kOperator, op); }
  bool skip_name(std::string_view name) { return skip(TokenKind::kName, name); }

  [[nodiscard]] std::string describe() const {
    switch (current().kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kOutputEnd:
        return "'}}'";
      case TokenKind::kString:
        return "a string";
      case TokenKind::kText:
        return "text";
      default:
        return "'" + current().text + "'";
    }
  }
  [[noreturn]] void fail(std::string_view expected) const {
    throw SyntaxFailure{current().line, fmt::format("expected {}, got {}", expected, describe())};
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail(fmt::format("'{}'", op));
  }
  void expect_block_end() {
    if (!is(TokenKind::kBlockEnd)) fail("'%}'");
    next();
  }
  std::string expect_name(std::string_view what) {
    if (!is(TokenKind::kName)) fail(what);
    return next().text;
  }

  // Counts the recursion of the parser itself.
  struct Nested {
    explicit Nested(Parser& owner) : parser(owner) {
      if (++parser.nesting_ > kMaxNesting) {
        throw SyntaxFailure{parser.current().line,
                            fmt::format("expected at most {} levels of nesting, got more", kMaxNesting)};
      }
    }
    ~Nested() { --parser.nesting_; }
    Parser& parser;
  };

  // --- expressions ---
  ExprPtr make(Expr::Kind kind, int line) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    return expr;
  }
  template <typename... Children>
  ExprPtr make(Expr::Kind kind, int line, Children... children) const {
    ExprPtr expr = make(kind, line);
    (adopt(*expr, std::move(children)), ...);
    return expr;
  }
  void note_depth(Expr& parent, const Expr* child) const {
    if (child == nullptr) return;
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kMaxExprDepth) {
      throw SyntaxFailure{parent.line,
                          fmt::format("expected an expression at most {} operations deep, got more", kMaxExprDepth)};
    }
  }
  void adopt(Expr& parent, ExprPtr child) const {
    note_depth(parent, child.get());
    parent.children.push_back(std::move(child));
  }
  ExprPtr constant(Value value, int line) const {
    ExprPtr expr = make(Expr::Kind::kConstant, line);
    expr->constant = std::move(value);
    return expr;
  }

  ExprPtr parse_expression() {
    const Nested nested(*this);
    const size_t unknown = unknown_.size();
    ExprPtr value = parse_or();
    while (is_name("if")) {
      const int line = next().line;
      ExprPtr test = parse_or();
      ExprPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
      value = make(Expr::Kind::kConditional, line, std::move(test), std::move(value), std::move(otherwise));
      unknown_.resize(unknown);
    }
    return value;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (is_name("or")) {
      const int line = next().line;
      left = make(Expr::Kind::kOr, line, std::move(left), parse_and());
    }
    return left;
  }
  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (is_name("and")) {
      const int line = next().line;
      left = make(Expr::Kind::kAnd, line, std::move(left), parse_not());
    }
    return left;
  }
  ExprPtr parse_not() {
    if (!is_name("not")) return parse_compare();
    const Nested nested(*this);
    const int line = next().line;
    return make(Expr::Kind::kNot, line, parse_not());
  }

  // The comparison operator that stands here, or "" (nothing consumed).
  std::string take_comparison() {
    static constexpr std::array<std::string_view, 6> kOps = {"==", "!=", "<", "<=", ">", ">="};
    if (is(TokenKind::kOperator) && std::find(kOps.begin(), kOps.end(), current().text) != kOps.end())
      return next().text;
    if (skip_name("in")) return "in";
    if (is_name("not") && tokens_[at_ + 1].kind == TokenKind::kName && tokens_[at_ + 1].text == "in") {
      next();
      next();
      return "not in";
    }
    return {};
  }
  ExprPtr parse_compare() {
    const int line = current().line;
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
  ExprPtr parse_binary(std::initializer_list<std::string_view> ops, const Next& operand) {
    ExprPtr left = operand();
    while (is(TokenKind::kOperator) && std::find(ops.begin(), ops.end(), current().text) != ops.end()) {
      const Token op = next();
      left = make(Expr::Kind::kBinary, op.line, std::move(left), operand());
      left->op = op.text;
    }
    return left;
  }
  ExprPtr parse_sum() {
    return parse_binary({"+", "-"}, [this] { return parse_concat(); });
  }
  ExprPtr parse_concat() {
    ExprPtr first = parse_product();
    if (!is_op("~")) return first;
    ExprPtr concat = make(Expr::Kind::kConcat, current().line, std::move(first));
    while (skip_op("~")) adopt(*concat, parse_product());
    return concat;
  }
  ExprPtr parse_product() {
    return parse_binary({"*", "/", "//", "%"}, [this] { return parse_power(); });
  }
  ExprPtr parse_power() {
    return parse_binary({"**"}, [this] { return parse_unary(true); });
  }

  ExprPtr parse_unary(bool with_filters) {
    const Nested nested(*this);
    const int line = current().line;
    ExprPtr node;
    if (skip_op("-")) {
      node = make(Expr::Kind::kNegate, line, parse_unary(false));
    } else if (skip_op("+")) {
      node = make(Expr::Kind::kPlus, line, parse_unary(false));
    } else {
      node = parse_primary();
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filters(std::move(node)) : std::move(node);
  }

  ExprPtr parse_primary() {
    const Token token = next();
    switch (token.kind) {
      case TokenKind::kName:
        return parse_name(token);
      case TokenKind::kString: {
        std::string text = token.text;
        while (is(TokenKind::kString)) text += next().text;
        return constant(Value(std::move(text)), token.line);
      }
      case TokenKind::kInteger:
        return constant(Value(parse_integer(token)), token.line);
      case TokenKind::kFloat:
        return constant(Value(std::strtod(token.text.c_str(), nullptr)), token.line);
      case TokenKind::kOperator:
        if (token.text == "(") {
          ExprPtr inner = parse_tuple(true, true);
          expect_op(")");
          return inner;
        }
        if (token.text == "[") return parse_list(token.line);
        if (token.text == "{") return parse_dict(token.line);
        [[fallthrough]];
      default:
        if (token.kind != TokenKind::kEnd) --at_;
        fail("an expression");
    }
  }
  ExprPtr parse_name(const Token& token) const {
    if (token.text == "true" || token.text == "True") return constant(Value(true), token.line);
    if (token.text == "false" || token.text == "False") return constant(Value(false), token.line);
    if (token.text == "none" || token.text == "None") return constant(Value(), token.line);
    ExprPtr expr = make(Expr::Kind::kName, token.line);
    expr->name = token.text;
    return expr;
  }
  ExprPtr parse_list(int line) {
    ExprPtr list = make(Expr::Kind::kList, line);
    while (!is_op("]")) {
      if (!list->children.empty()) expect_op(",");
      if (is_op("]")) break;
      adopt(*list, parse_expression());
    }
    expect_op("]");
    return list;
  }
  ExprPtr parse_dict(int line) {
    ExprPtr dict = make(Expr::Kind::kDict, line);
    while (!is_op("}")) {
      if (!dict->children.empty()) expect_op(",");
      if (is_op("}")) break;
      adopt(*dict, parse_expression());
      expect_op(":");
      adopt(*dict, parse_expression());
    }
    expect_op("}");
    return dict;
  }

  [[nodiscard]] bool at_tuple_end() const {
    return is(TokenKind::kOutputEnd) || is(TokenKind::kBlockEnd) || is_op(")") || is_name("recursive");
  }
  // a, b, c without (necessarily) parentheses around; one expression without a comma is itself.
  ExprPtr parse_tuple(bool conditional, bool parenthesised) {
    const int line = current().line;
    std::vector<ExprPtr> items;
    bool comma = false;
    while (!at_tuple_end()) {
      items.push_back(conditional ? parse_expression() : parse_or());
      if (!is_op(",")) break;
      comma = true;
      next();
    }
    if (!comma && items.size() == 1) return std::move(items.front());
    if (items.empty() && !parenthesised) fail("an expression");
    ExprPtr tuple = make(Expr::Kind::kTuple, line);
    for (ExprPtr& item : items) adopt(*tuple, std::move(item));
    return tuple;
  }

  ExprPtr parse_postfix(ExprPtr node) {
    for (;;) {
      if (is_op(".")) {
        node = parse_attribute(std::move(node));
      } else if (is_op("[")) {
        node = parse_subscript(std::move(node));
      } else if (is_op("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }
  ExprPtr parse_attribute(ExprPtr node) {
    const int line = next().line;
    if (is(TokenKind::kInteger)) {
      ExprPtr index = constant(Value(parse_integer(next())), line);
      return make(Expr::Kind::kItem, line, std::move(node), std::move(index));
    }
    std::string name = expect_name("the name of an attribute");
    ExprPtr attribute = make(Expr::Kind::kAttribute, line, std::move(node));
    attribute->name = std::move(name);
    return attribute;
  }
  ExprPtr parse_subscript(ExprPtr node) {
    const int line = next().line;
    std::array<ExprPtr, 3> bounds;
    size_t colons = 0;
    while (!is_op("]")) {
      if (skip_op(":")) {
        if (++colons > 2) fail("']'");
      } else if (bounds[colons] == nullptr) {
        bounds[colons] = parse_expression();
        if (colons == 0 && is_op(",")) bounds[0] = parse_subscript_tuple(std::move(bounds[0]));
      } else {
        fail("']'");
      }
    }
    next();
    if (colons > 0) {
      return make(Expr::Kind::kSlice, line, std::move(node), std::move(bounds[0]), std::move(bounds[1]),
                  std::move(bounds[2]));
    }
    if (bounds[0] == nullptr) fail("an expression before ']'");
    return make(Expr::Kind::kItem, line, std::move(node), std::move(bounds[0]));
  }
  ExprPtr parse_subscript_tuple(ExprPtr first) {
    ExprPtr tuple = make(Expr::Kind::kTuple, current().line, std::move(first));
    while (skip_op(",")) adopt(*tuple, parse_expression());
    return tuple;
  }
  ExprPtr parse_call(ExprPtr node) {
    ExprPtr call = make(Expr::Kind::kCall, current().line, std::move(node));
    parse_arguments(*call);
    return call;
  }

  void parse_arguments(Expr& call) {
    expect_op("(");
    bool first = true, named = false;
    while (!is_op(")")) {
      if (!first) expect_op(",");
      if (is_op(")")) break;
      first = false;
      Argument argument{Argument::Kind::kPositional, {}, nullptr};
      if (skip_op("*")) {
        argument.kind = Argument::Kind::kSpread;
      } else if (skip_op("**")) {
        argument.kind = Argument::Kind::kSpreadNamed;
        named = true;
      } else if (is(TokenKind::kName) && tokens_[at_ + 1].kind == TokenKind::kOperator &&
                 tokens_[at_ + 1].text == "=") {
        argument.kind = Argument::Kind::kNamed;
        argument.name = next().text;
        next();
        named = true;
      } else if (named) {
        fail("a named argument after named arguments");
      }
      argument.value = parse_expression();
      note_depth(call, argument.value.get());
      call.arguments.push_back(std::move(argument));
    }
    next();
  }

  std::string dotted_name(std::string_view what) {
    std::string name = expect_name(what);
    while (skip_op(".")) name += "." + expect_name(what);
    return name;
  }
  // Filters, tests and calls on their results, from left to right.
  ExprPtr parse_filters(ExprPtr node) {
    for (;;) {
      if (is_op("|")) {
        node = parse_filter(std::move(node));
      } else if (is_name("is")) {
        node = parse_test(std::move(node));
      } else if (is_op("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }
  ExprPtr parse_filter(ExprPtr node) {
    const int line = next().line;
    std::string name = dotted_name("the name of a filter");
    if (!filter_exists(name)) unknown_.push_back({line, fmt::format("expected a filter of Jinja's, got '{}'", name)});
    ExprPtr filter = make(Expr::Kind::kFilter, line, std::move(node));
    filter->name = std::move(name);
    if (is_op("(")) parse_arguments(*filter);
    return filter;
  }
  // A test's single argument may stand without parentheses: `x is divisibleby 3`.
  ExprPtr parse_test(ExprPtr node) {
    const int line = next().line;
    const bool negated = skip_name("not");
    std::string name = dotted_name("the name of a test");
    if (!test_exists(name)) unknown_.push_back({line, fmt::format("expected a test of Jinja's, got '{}'", name)});
    ExprPtr test = make(Expr::Kind::kTest, line, std::move(node));
    test->name = std::move(name);
    if (is_op("(")) {
      parse_arguments(*test);
    } else if (starts_test_argument()) {
      if (is_name("is")) fail("one test at a time");
      ExprPtr argument = parse_postfix(parse_primary());
      note_depth(*test, argument.get());
      test->arguments.push_back({Argument::Kind::kPositional, {}, std::move(argument)});
    }
    return negated ? make(Expr::Kind::kNot, line, std::move(test)) : std::move(test);
  }
  [[nodiscard]] bool starts_test_argument() const {
    switch (current().kind) {
      case TokenKind::kName:
        return !is_name("else") && !is_name("or") && !is_name("and");
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      default:
        return is_op("[") || is_op("{");
    }
  }

  // --- statements ---
  static std::unique_ptr<Stmt> make_stmt(Stmt::Kind kind, int line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  // Statements up to a block that begins with one of `ends`; that name is consumed and left in end_.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Body body;
    for (;;) {
      const Token token = next();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) fail(fmt::format("'{{% {} %}}'", *(ends.end() - 1)));
        return body;
      }
      if (token.kind == TokenKind::kText) {
        body.push_back(make_stmt(Stmt::Kind::kText, token.line));
        body.back()->text = token.text;
      } else if (token.kind == TokenKind::kOutputBegin) {
        body.push_back(make_stmt(Stmt::Kind::kOutput, token.line));
        body.back()->expr = parse_tuple(true, false);
        if (!is(TokenKind::kOutputEnd)) fail("'}}'");
        next();
      } else {
        for (const std::string_view end : ends) {
          if (!is_name(end)) continue;
          end_ = next().text;
          return body;
        }
        body.push_back(parse_statement());
      }
    }
  }

  std::unique_ptr<Stmt> parse_statement() {
    if (!is(TokenKind::kName)) fail("the name of a statement");
    const Token keyword = next();
    const std::string& name = keyword.text;
    if (name == "if") return parse_if(keyword.line);
    if (name == "for") return parse_for(keyword.line);
    if (name == "set") return parse_set(keyword.line);
    if (name == "macro") return parse_macro(keyword.line);
    if (name == "call") return parse_call_block(keyword.line);
    if (name == "filter") return parse_filter_block(keyword.line);
    if (name == "with") return parse_with(keyword.line);
    if (name == "print") return parse_print(keyword.line);
    if (name == "generation") return parse_generation(keyword.line);
    if (name == "break" || name == "continue") return parse_jump(keyword);
    static constexpr std::array<std::string_view, 5> kRefused = {"extends", "include", "import", "from", "block"};
    if (std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end()) {
      throw SyntaxFailure{keyword.line,
                          fmt::format("expected a chat template in one piece, got '{{% {} %}}'; write it out", name)};
    }
    throw SyntaxFailure{keyword.line, fmt::format("expected a statement of Jinja's, got '{}'", name)};
  }

  std::unique_ptr<Stmt> parse_if(int line) {
    auto stmt = make_stmt(Stmt::Kind::kIf, line);
    const size_t unknown = unknown_.size();
    do {
      ExprPtr test = parse_tuple(false, false);
      expect_block_end();
      stmt->branches.emplace_back(std::move(test), parse_body({"elif", "else", "endif"}));
    } while (end_ == "elif");
    if (end_ == "else") {
      expect_block_end();
      stmt->otherwise = parse_body({"endif"});
    }
    expect_block_end();
    unknown_.resize(unknown);
    return stmt;
  }

  ExprPtr parse_target_name() {
    const Token token = current();
    if (skip_op("(")) {
      ExprPtr inner = parse_target();
      expect_op(")");
      return inner;
    }
    ExprPtr name = make(Expr::Kind::kName, token.line);
    name->name = expect_name("the name of a variable");
    return name;
  }
  ExprPtr parse_target() {
    const Nested nested(*this);
    const int line = current().line;
    ExprPtr first = parse_target_name();
    if (!is_op(",")) return first;
    ExprPtr tuple = make(Expr::Kind::kTuple, line, std::move(first));
    while (skip_op(",")) {
      if (!is(TokenKind::kName) && !is_op("(")) break;
      if (is_name("in")) break;
      adopt(*tuple, parse_target_name());
    }
    return tuple;
  }

  std::unique_ptr<Stmt> parse_for(int line) {
    auto stmt = make_stmt(Stmt::Kind::kFor, line);
    stmt->target = parse_target();
    if (!skip_name("in")) fail("'in'");
    stmt->expr = parse_tuple(false, false);
    if (skip_name("if")) stmt->test = parse_expression();
    stmt->recursive = skip_name("recursive");
    expect_block_end();
    ++loops_;
    stmt->body = parse_body({"else", "endfor"});
    --loops_;
    if (end_ == "else") {
      expect_block_end();
      stmt->otherwise = parse_body({"endfor"});
    }
    expect_block_end();
    return stmt;
  }

  std::unique_ptr<Stmt> parse_set(int line) {
    auto stmt = make_stmt(Stmt::Kind::kSet, line);
    stmt->target = parse_target();
    if (stmt->target->kind == Expr::Kind::kName && skip_op(".")) {
      ExprPtr attribute = make(Expr::Kind::kAttribute, line, std::move(stmt->target));
      attribute->name = expect_name("the name of an attribute");
      stmt->target = std::move(attribute);
    }
    if (skip_op("=")) {
      stmt->expr = parse_tuple(true, false);
      expect_block_end();
      return stmt;
    }
    stmt->kind = Stmt::Kind::kSetBlock;
    stmt->expr = parse_filter_chain();
    expect_block_end();
    stmt->body = parse_body({"endset"});
    expect_block_end();
    return stmt;
  }
  // | filter | filter: a chain whose innermost child is missing; null where none stands.
  ExprPtr parse_filter_chain() {
    ExprPtr chain;
    while (is_op("|")) chain = parse_filter(std::move(chain));
    return chain;
  }

  void parse_parameters(Stmt& stmt) {
    expect_op("(");
    while (!is_op(")")) {
      if (!stmt.parameters.empty()) expect_op(",");
      if (is_op(")")) break;
      Parameter parameter{expect_name("the name of a parameter"), nullptr};
      if (skip_op("=")) {
        parameter.fallback = parse_expression();
      } else if (!stmt.parameters.empty() && stmt.parameters.back().fallback != nullptr) {
        fail("a default for each parameter after one that has a default");
      }
      stmt.parameters.push_back(std::move(parameter));
    }
    next();
  }
  // A body that a macro or caller owns: a loop around it is not its loop.
  void parse_callable_body(Stmt& stmt, std::string_view end) {
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    const size_t begin = at_;
    stmt.body = parse_body({end});
    loops_ = loops;
    for (size_t i = begin; i < at_; ++i) {
      if (tokens_[i].kind != TokenKind::kName) continue;
      stmt.takes_varargs = stmt.takes_varargs || tokens_[i].text == "varargs";
      stmt.takes_kwargs = stmt.takes_kwargs || tokens_[i].text == "kwargs";
    }
    expect_block_end();
  }
  std::unique_ptr<Stmt> parse_macro(int line) {
    auto stmt = make_stmt(Stmt::Kind::kMacro, line);
    stmt->text = expect_name("the name of the macro");
    parse_parameters(*stmt);
    parse_callable_body(*stmt, "endmacro");
    return stmt;
  }
  std::unique_ptr<Stmt> parse_call_block(int line) {
    auto stmt = make_stmt(Stmt::Kind::kCallBlock, line);
    if (is_op("(")) parse_parameters(*stmt);
    stmt->expr = parse_expression();
    if (stmt->expr->kind != Expr::Kind::kCall)
      throw SyntaxFailure{line, "expected a call in a call block, got another expression"};
    parse_callable_body(*stmt, "endcall");
    return stmt;
  }
  std::unique_ptr<Stmt> parse_filter_block(int line) {
    auto stmt = make_stmt(Stmt::Kind::kFilterBlock, line);
    // The first filter stands without its bar.
    --at_;
    tokens_[at_] = {TokenKind::kOperator, "|", line};
    stmt->expr = parse_filter_chain();
    expect_block_end();
    stmt->body = parse_body({"endfilter"});
    expect_block_end();
    return stmt;
  }
  std::unique_ptr<Stmt> parse_with(int line) {
    auto stmt = make_stmt(Stmt::Kind::kWith, line);
    while (!is(TokenKind::kBlockEnd)) {
      if (!stmt->bindings.empty()) expect_op(",");
      ExprPtr target = parse_target_name();
      expect_op("=");
      stmt->bindings.emplace_back(std::move(target), parse_expression());
    }
    next();
    stmt->body = parse_body({"endwith"});
    expect_block_end();
    return stmt;
  }
  std::unique_ptr<Stmt> parse_print(int line) {
    auto stmt = make_stmt(Stmt::Kind::kOutput, line);
    stmt->expr = make(Expr::Kind::kConcat, line, parse_expression());
    while (skip_op(",")) adopt(*stmt->expr, parse_expression());
    expect_block_end();
    return stmt;
  }
  std::unique_ptr<Stmt> parse_generation(int line) {
    auto stmt = make_stmt(Stmt::Kind::kGeneration, line);
    parse_callable_body(*stmt, "endgeneration");
    marks_generation_ = true;
    return stmt;
  }
  std::unique_ptr<Stmt> parse_jump(const Token& keyword) {
    if (loops_ == 0)
      throw SyntaxFailure{keyword.line, fmt::format("expected '{}' inside a loop, got it outside", keyword.text)};
    expect_block_end();
    return make_stmt(keyword.text == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, keyword.line);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;
  bool marks_generation_ = false;
  std::string end_;
  // Filters and tests that do not exist. Under a condition they are an error only where they are reached, as in Jinja.
  std::vector<SyntaxFailure> unknown_;
};

}  // namespace

Template parse(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace spillway::data::jinja

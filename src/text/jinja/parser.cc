#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/token_stream.h"

namespace spillway::text::jinja {
namespace {

using TokenKind = Token::Kind;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Template run() {
    Template result;
    result.body = parse_body({});
    expressions_.refuse_unknown();
    result.marks_generation = marks_generation_;
    return result;
  }

 private:
  static std::unique_ptr<Stmt> make_stmt(Stmt::Kind kind, int line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  // Parses statements up to a block that begins with one of `ends`; that name is consumed and left in end_.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const TokenStream::Nested nested(tokens_);
    Body body;
    for (;;) {
      const Token token = tokens_.next();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) tokens_.fail(fmt::format("'{{% {} %}}'", *(ends.end() - 1)));
        return body;
      }
      if (token.kind == TokenKind::kText) {
        body.push_back(make_stmt(Stmt::Kind::kText, token.line));
        body.back()->text = token.text;
      } else if (token.kind == TokenKind::kOutputBegin) {
        body.push_back(make_stmt(Stmt::Kind::kOutput, token.line));
        body.back()->expr = expressions_.parse_tuple(true, false);
        if (!tokens_.is(TokenKind::kOutputEnd)) tokens_.fail("'}}'");
        tokens_.next();
      } else {
        for (const std::string_view end : ends) {
          if (!tokens_.is_name(end)) continue;
          end_ = tokens_.next().text;
          return body;
        }
        body.push_back(parse_statement());
      }
    }
  }

  std::unique_ptr<Stmt> parse_statement() {
    if (!tokens_.is(TokenKind::kName)) tokens_.fail("the name of a statement");
    const Token keyword = tokens_.next();
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
    const size_t unknown = expressions_.unknown_count();
    do {
      ExprPtr test = expressions_.parse_tuple(false, false);
      tokens_.expect_block_end();
      stmt->branches.emplace_back(std::move(test), parse_body({"elif", "else", "endif"}));
    } while (end_ == "elif");
    if (end_ == "else") {
      tokens_.expect_block_end();
      stmt->otherwise = parse_body({"endif"});
    }
    tokens_.expect_block_end();
    expressions_.forgive_unknown(unknown);
    return stmt;
  }

  std::unique_ptr<Stmt> parse_for(int line) {
    auto stmt = make_stmt(Stmt::Kind::kFor, line);
    stmt->target = expressions_.parse_target();
    if (!tokens_.skip_name("in")) tokens_.fail("'in'");
    stmt->expr = expressions_.parse_tuple(false, false);
    if (tokens_.skip_name("if")) stmt->test = expressions_.parse_expression();
    stmt->recursive = tokens_.skip_name("recursive");
    tokens_.expect_block_end();
    ++loops_;
    stmt->body = parse_body({"else", "endfor"});
    --loops_;
    if (end_ == "else") {
      tokens_.expect_block_end();
      stmt->otherwise = parse_body({"endfor"});
    }
    tokens_.expect_block_end();
    return stmt;
  }

  std::unique_ptr<Stmt> parse_set(int line) {
    auto stmt = make_stmt(Stmt::Kind::kSet, line);
    stmt->target = expressions_.parse_set_target();
    if (tokens_.skip_op("=")) {
      stmt->expr = expressions_.parse_tuple(true, false);
      tokens_.expect_block_end();
      return stmt;
    }
    stmt->kind = Stmt::Kind::kSetBlock;
    stmt->expr = expressions_.parse_filter_chain();
    tokens_.expect_block_end();
    stmt->body = parse_body({"endset"});
    tokens_.expect_block_end();
    return stmt;
  }
  void parse_parameters(Stmt& stmt) {
    tokens_.expect_op("(");
    while (!tokens_.is_op(")")) {
      if (!stmt.parameters.empty()) tokens_.expect_op(",");
      if (tokens_.is_op(")")) break;
      Parameter parameter{tokens_.expect_name("the name of a parameter"), nullptr};
      if (tokens_.skip_op("=")) {
        parameter.fallback = expressions_.parse_expression();
      } else if (!stmt.parameters.empty() && stmt.parameters.back().fallback != nullptr) {
        tokens_.fail("a default for each parameter after one that has a default");
      }
      stmt.parameters.push_back(std::move(parameter));
    }
    tokens_.next();
  }
  // Parses a body that a macro or caller owns: a loop around it is not its loop.
  void parse_callable_body(Stmt& stmt, std::string_view end) {
    tokens_.expect_block_end();
    const int loops = std::exchange(loops_, 0);
    const size_t begin = tokens_.position();
    stmt.body = parse_body({end});
    loops_ = loops;
    stmt.takes_varargs = tokens_.named_since(begin, "varargs");
    stmt.takes_kwargs = tokens_.named_since(begin, "kwargs");
    tokens_.expect_block_end();
  }
  std::unique_ptr<Stmt> parse_macro(int line) {
    auto stmt = make_stmt(Stmt::Kind::kMacro, line);
    stmt->text = tokens_.expect_name("the name of the macro");
    parse_parameters(*stmt);
    parse_callable_body(*stmt, "endmacro");
    return stmt;
  }
  std::unique_ptr<Stmt> parse_call_block(int line) {
    auto stmt = make_stmt(Stmt::Kind::kCallBlock, line);
    if (tokens_.is_op("(")) parse_parameters(*stmt);
    stmt->expr = expressions_.parse_expression();
    if (stmt->expr->kind != Expr::Kind::kCall)
      throw SyntaxFailure{line, "expected a call in a call block, got another expression"};
    parse_callable_body(*stmt, "endcall");
    return stmt;
  }
  std::unique_ptr<Stmt> parse_filter_block(int line) {
    auto stmt = make_stmt(Stmt::Kind::kFilterBlock, line);
    // The first filter stands without its bar; `filter` takes its place.
    tokens_.replace_last({TokenKind::kOperator, "|", line});
    stmt->expr = expressions_.parse_filter_chain();
    tokens_.expect_block_end();
    stmt->body = parse_body({"endfilter"});
    tokens_.expect_block_end();
    return stmt;
  }
  std::unique_ptr<Stmt> parse_with(int line) {
    auto stmt = make_stmt(Stmt::Kind::kWith, line);
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      if (!stmt->bindings.empty()) tokens_.expect_op(",");
      ExprPtr target = expressions_.parse_target_name();
      tokens_.expect_op("=");
      stmt->bindings.emplace_back(std::move(target), expressions_.parse_expression());
    }
    tokens_.next();
    stmt->body = parse_body({"endwith"});
    tokens_.expect_block_end();
    return stmt;
  }
  std::unique_ptr<Stmt> parse_print(int line) {
    auto stmt = make_stmt(Stmt::Kind::kOutput, line);
    stmt->expr = expressions_.parse_list_as_text();
    tokens_.expect_block_end();
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
    tokens_.expect_block_end();
    return make_stmt(keyword.text == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, keyword.line);
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;  // around this place, in its callable
  bool marks_generation_ = false;
  std::string end_;  // the name that ended the last body
};

}  // namespace

Template parse(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace spillway::text::jinja

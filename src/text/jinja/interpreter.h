// Renders a parsed template. One interpreter renders once, on one thread; the template may be shared.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace spillway::text::jinja {

struct Scope;
struct Macro;
class Loop;

// The place and reason of a failed rendering.
struct RenderFailure {
  int line;
  std::string message;
  bool raised_by_template;  // by raise_exception
};

class Interpreter {
 public:
  // The template sees `variables` by name; `budget` and `now` are in `runtime`.
  Interpreter(Runtime& runtime, const Dict& variables);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  struct Output {
    std::string text;
    std::vector<std::pair<int64_t, int64_t>> generation_spans;  // bytes of `text`
  };
  // Throws RenderFailure.
  [[nodiscard]] Output render(const Template& source);

 private:
  friend struct Macro;
  friend class Loop;
  using ScopePtr = std::shared_ptr<Scope>;
  enum class Flow { kNext, kBreak, kContinue };
  class Deeper;
  class Entered;

  // statements
  Flow run(const Body& body);
  Flow run(const Stmt& stmt);
  Flow run_if(const Stmt& stmt);
  void run_for(const Stmt& stmt, const Value& iterable, int depth);
  void run_with(const Stmt& stmt);
  void run_set_block(const Stmt& stmt);
  void run_call_block(const Stmt& stmt);
  void run_generation(const Stmt& stmt);
  void define_macro(const Stmt& stmt);
  std::string capture(const Body& body);
  void write(const Value& value);
  Value make_macro(const Stmt& stmt, std::string name);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  void assign(const Expr& target, const Value& value);
  void assign_attribute(const Expr& target, const Value& value);

  // expressions
  Value evaluate(const Expr& expr);
  Value evaluate_children(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_filter(const Expr& expr, const Value* block);
  Value look_up(std::string_view name);
  Arguments evaluate_arguments(const Expr& expr);
  bool compare_once(const std::string& op, const Value& left, const Value& right);

  Runtime& runtime_;
  const Dict& variables_;
  ScopePtr scope_;
  std::string* out_ = nullptr;  // the target of output: the page, or a capture
  std::string page_;
  std::vector<std::pair<int64_t, int64_t>> generation_spans_;
  int line_ = 1;
  int depth_ = 0;
  std::vector<std::shared_ptr<Macro>> macros_;  // a macro holds its scope and the scope the macro: cut at the end
};

}  // namespace spillway::text::jinja

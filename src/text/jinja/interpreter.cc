#include "text/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/scope.h"

namespace spillway::text::jinja {

// A macro, or the `caller` of a call block: a body with the scope it was written in.
struct Macro : Callable {
  Macro(Interpreter& owner, const Stmt& definition, std::string macro_name, std::shared_ptr<Scope> closure)
      : interpreter(owner), stmt(definition), name(std::move(macro_name)), scope(std::move(closure)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Macro"; }
  [[nodiscard]] Value call(Runtime&, const Arguments& arguments) override {
    return interpreter.call_macro(*this, arguments);
  }

  Interpreter& interpreter;
  const Stmt& stmt;
  std::string name;
  std::shared_ptr<Scope> scope;
};

// Makes a scope current for a block.
class Interpreter::Entered {
 public:
  Entered(Interpreter& owner, ScopePtr scope) : owner_(owner), outer_(std::exchange(owner.scope_, std::move(scope))) {}
  ~Entered() { owner_.scope_ = std::move(outer_); }

 private:
  Interpreter& owner_;
  ScopePtr outer_;
};

Interpreter::Interpreter(Runtime& runtime, const Dict& variables)
    : runtime_(runtime), variables_(variables), scope_(std::make_shared<Scope>()), out_(&page_) {}

Interpreter::~Interpreter() {
  // Cuts rings of namespaces, macros and scopes, one link at a time.
  for (const auto& space : runtime_.namespaces) space->attributes = Dict();
  for (const auto& macro : macros_) macro->scope = nullptr;
}

Interpreter::Output Interpreter::render(const Template& source) {
  try {
    (void)run(source.body);
  } catch (const Failure& failure) {
    throw RenderFailure{line_, failure.message, false};
  } catch (const RaisedByTemplate& raised) {
    throw RenderFailure{line_, raised.message, true};
  }
  return {std::move(page_), std::move(generation_spans_)};
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = run(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt) {
  const Deeper deeper(*this);
  line_ = stmt.line;
  switch (stmt.kind) {
    case Stmt::Kind::kText:
      runtime_.budget.spend_bytes(stmt.text.size());
      *out_ += stmt.text;
      break;
    case Stmt::Kind::kOutput:
      write(evaluate(*stmt.expr));
      break;
    case Stmt::Kind::kIf:
      return run_if(stmt);
    case Stmt::Kind::kFor:
      run_for(stmt, evaluate(*stmt.expr), 0);
      break;
    case Stmt::Kind::kSet:
      assign(*stmt.target, evaluate(*stmt.expr));
      break;
    case Stmt::Kind::kSetBlock:
      run_set_block(stmt);
      break;
    case Stmt::Kind::kMacro:
      define_macro(stmt);
      break;
    case Stmt::Kind::kCallBlock:
      run_call_block(stmt);
      break;
    case Stmt::Kind::kFilterBlock: {
      const Value text(capture(stmt.body));
      write(evaluate_filter(*stmt.expr, &text));
      break;
    }
    case Stmt::Kind::kWith:
      run_with(stmt);
      break;
    case Stmt::Kind::kGeneration:
      run_generation(stmt);
      break;
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt) {
  for (const auto& [test, body] : stmt.branches) {
    if (truthy(evaluate(*test))) return run(body);
  }
  return run(stmt.otherwise);
}

void Interpreter::run_for(const Stmt& stmt, const Value& iterable, int depth) {
  const ScopePtr outer = scope_;
  Loop::Condition condition;
  if (stmt.test != nullptr) {
    condition = [this, &stmt, outer](const Value& item) {
      const Entered entered(*this, std::make_shared<Scope>(Scope{outer, {}}));
      assign(*stmt.target, item);
      return truthy(evaluate(*stmt.test));
    };
  }
  Loop::Recursion recursion;
  if (stmt.recursive) {
    recursion = [this, &stmt, outer, depth](const Value& inner) {
      const Deeper deeper(*this);
      const Entered entered(*this, outer);
      std::string text;
      std::string* const page = std::exchange(out_, &text);
      try {
        run_for(stmt, inner, depth + 1);
      } catch (...) {
        out_ = page;
        throw;
      }
      out_ = page;
      return Value(std::move(text));
    };
  }
  const auto loop =
      std::make_shared<Loop>(items_of(iterable, runtime_.budget), depth, std::move(condition), std::move(recursion));
  const Value loop_value{std::shared_ptr<Object>(loop)};
  // As in Jinja, a round that `break` or `continue` cuts short does not count against the else block.
  bool any = false;
  while (auto item = loop->next()) {
    runtime_.budget.spend(1);
    const auto scope = std::make_shared<Scope>(Scope{outer, {}});
    const Entered entered(*this, scope);
    assign(*stmt.target, *item);
    scope->set("loop", loop_value);
    const Flow flow = run(stmt.body);
    if (flow == Flow::kBreak) break;
    any = any || flow == Flow::kNext;
  }
  loop->finish();
  if (!any) {
    const Entered entered(*this, std::make_shared<Scope>(Scope{outer, {}}));
    (void)run(stmt.otherwise);
  }
}

void Interpreter::run_with(const Stmt& stmt) {
  const auto scope = std::make_shared<Scope>(Scope{scope_, {}});
  std::vector<Value> values;
  for (const auto& binding : stmt.bindings) values.push_back(evaluate(*binding.second));
  const Entered entered(*this, scope);
  for (size_t i = 0; i < values.size(); ++i) assign(*stmt.bindings[i].first, values[i]);
  (void)run(stmt.body);
}

void Interpreter::run_set_block(const Stmt& stmt) {
  std::string text;
  {
    const Entered entered(*this, std::make_shared<Scope>(Scope{scope_, {}}));
    text = capture(stmt.body);
  }
  const Value block(std::move(text));
  assign(*stmt.target, stmt.expr == nullptr ? block : evaluate_filter(*stmt.expr, &block));
}

void Interpreter::run_call_block(const Stmt& stmt) {
  const Expr& call_expr = *stmt.expr;
  const Value callee = evaluate(*call_expr.children.front());
  Arguments arguments = evaluate_arguments(call_expr);
  arguments.named.emplace_back("caller", make_macro(stmt, "caller"));
  write(call(runtime_, callee, arguments));
}

void Interpreter::run_generation(const Stmt& stmt) {
  // Counts spans as transformers does: from the end of the page, wherever the block's own text goes.
  const auto begin = static_cast<int64_t>(page_.size());
  std::string text;
  {
    const Entered entered(*this, std::make_shared<Scope>(Scope{scope_, {}}));
    text = capture(stmt.body);
  }
  generation_spans_.emplace_back(begin, begin + static_cast<int64_t>(text.size()));
  *out_ += text;
}

void Interpreter::define_macro(const Stmt& stmt) { scope_->set(stmt.text, make_macro(stmt, stmt.text)); }

Value Interpreter::make_macro(const Stmt& stmt, std::string name) {
  auto macro = std::make_shared<Macro>(*this, stmt, std::move(name), scope_);
  macros_.push_back(macro);
  return Value(std::shared_ptr<Object>(std::move(macro)));
}

std::string Interpreter::capture(const Body& body) {
  std::string text;
  std::string* const page = std::exchange(out_, &text);
  try {
    (void)run(body);
  } catch (...) {
    out_ = page;
    throw;
  }
  out_ = page;
  return text;
}

void Interpreter::write(const Value& value) {
  if (value.is_text()) {
    runtime_.budget.spend_bytes(value.text().size());
    *out_ += value.text();
  } else {
    *out_ += to_text(value, runtime_.budget);
  }
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const Deeper deeper(*this);
  const Stmt& stmt = macro.stmt;
  const auto scope = std::make_shared<Scope>(Scope{macro.scope, {}});
  const Entered entered(*this, scope);
  std::vector<Value> rest;
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < stmt.parameters.size()) {
      scope->set(stmt.parameters[i].name, arguments.positional[i]);
    } else {
      rest.push_back(arguments.positional[i]);
    }
  }
  std::vector<std::pair<Value, Value>> named_rest;
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find_if(stmt.parameters.begin(), stmt.parameters.end(),
                                    [&n = name](const Parameter& p) { return p.name == n; });
    if (found != stmt.parameters.end()) {
      if (scope->find(found->name) != nullptr)
        throw Failure{fmt::format("macro '{}' got two values for '{}'", macro.name, name)};
      scope->set(found->name, value);
    } else if (name == "caller") {
      scope->set("caller", value);
    } else {
      named_rest.emplace_back(Value(name), value);
    }
  }
  if (!rest.empty() && !stmt.takes_varargs) {
    throw Failure{fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, stmt.parameters.size())};
  }
  if (!named_rest.empty() && !stmt.takes_kwargs) {
    throw Failure{
        fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, named_rest.front().first.text())};
  }
  if (stmt.takes_varargs) scope->set("varargs", make_sequence(std::move(rest), Sequence::Kind::kTuple));
  if (stmt.takes_kwargs) scope->set("kwargs", make_dict(named_rest));
  if (scope->find("caller") == nullptr && stmt.kind == Stmt::Kind::kMacro)
    scope->set("caller", make_undefined("No caller defined"));
  for (const Parameter& parameter : stmt.parameters) {
    if (scope->find(parameter.name) != nullptr) continue;
    scope->set(parameter.name, parameter.fallback != nullptr
                                   ? evaluate(*parameter.fallback)
                                   : make_undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
  }
  return Value(capture(stmt.body));
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == Expr::Kind::kName) {
    scope_->set(target.name, value);
    return;
  }
  if (target.kind == Expr::Kind::kAttribute) return assign_attribute(target, value);
  if (value.is_undefined()) fail_undefined(value);
  const auto items = items_of(value, runtime_.budget);
  if (items.size() != target.children.size()) {
    throw Failure{fmt::format("expected {} values to unpack, got {}", target.children.size(), items.size())};
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i]);
}

void Interpreter::assign_attribute(const Expr& target, const Value& value) {
  const Value owner = evaluate(*target.children.front());
  auto* space = owner.is_object() ? dynamic_cast<Namespace*>(owner.object().get()) : nullptr;
  if (space == nullptr) {
    throw Failure{fmt::format("cannot assign attribute '{}' on '{}' object; only namespaces can be changed",
                              target.name, type_name(owner))};
  }
  const Value name(target.name);
  check_attribute_name(name);
  space->attributes.set(name, value);
}

}  // namespace spillway::text::jinja

// The interpreter's expressions.
#include <fmt/format.h>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/scope.h"

namespace spillway::text::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  const Deeper deeper(*this);
  line_ = expr.line;
  const auto child = [&](size_t i) { return evaluate(*expr.children[i]); };
  switch (expr.kind) {
    case Expr::Kind::kConstant:
      return expr.constant;
    case Expr::Kind::kName:
      return look_up(expr.name);
    case Expr::Kind::kTuple:
    case Expr::Kind::kList:
    case Expr::Kind::kDict:
      return evaluate_children(expr);
    case Expr::Kind::kNegate:
      return negate(child(0));
    case Expr::Kind::kPlus:
      return binary(runtime_, "+", Value(0), child(0));
    case Expr::Kind::kNot:
      return Value(!truthy(child(0)));
    case Expr::Kind::kAnd: {
      Value left = child(0);
      return truthy(left) ? child(1) : left;
    }
    case Expr::Kind::kOr: {
      Value left = child(0);
      return truthy(left) ? left : child(1);
    }
    case Expr::Kind::kBinary: {
      const Value left = child(0), right = child(1);
      return binary(runtime_, expr.op, left, right);
    }
    case Expr::Kind::kConcat:
      return evaluate_concat(expr);
    case Expr::Kind::kCompare:
      return evaluate_compare(expr);
    case Expr::Kind::kConditional:
      return evaluate_conditional(expr);
    case Expr::Kind::kAttribute:
      return attribute(runtime_, child(0), expr.name);
    case Expr::Kind::kItem: {
      const Value owner = child(0), key = child(1);
      return item(runtime_, owner, key);
    }
    case Expr::Kind::kSlice:
      return evaluate_slice(expr);
    case Expr::Kind::kCall: {
      const Value callee = child(0);
      return call(runtime_, callee, evaluate_arguments(expr));
    }
    case Expr::Kind::kFilter:
      return evaluate_filter(expr, nullptr);
    case Expr::Kind::kTest: {
      const Value input = child(0);
      return Value(apply_test(runtime_, expr.name, input, evaluate_arguments(expr)));
    }
  }
  return {};
}

Value Interpreter::evaluate_children(const Expr& expr) {
  std::vector<Value> values;
  values.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) values.push_back(evaluate(*child));
  if (expr.kind == Expr::Kind::kList) return make_sequence(std::move(values));
  if (expr.kind == Expr::Kind::kTuple) return make_sequence(std::move(values), Sequence::Kind::kTuple);
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < values.size(); i += 2)
    entries.emplace_back(std::move(values[i]), std::move(values[i + 1]));
  return make_dict(entries);
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children.front());
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    if (!compare_once(expr.ops[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Interpreter::compare_once(const std::string& op, const Value& left, const Value& right) {
  Budget& budget = runtime_.budget;
  if (op == "==") return equal(left, right, budget);
  if (op == "!=") return !equal(left, right, budget);
  if (op == "in") return contains(right, left, budget);
  if (op == "not in") return !contains(right, left, budget);
  const int order = compare(left, right, op, budget);
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  std::string text;
  for (const ExprPtr& child : expr.children) text += to_text(evaluate(*child), runtime_.budget);
  runtime_.budget.spend_bytes(text.size());
  return Value(std::move(text));
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truthy(evaluate(*expr.children[0]))) return evaluate(*expr.children[1]);
  if (expr.children[2] != nullptr) return evaluate(*expr.children[2]);
  return make_undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value owner = evaluate(*expr.children[0]);
  const auto bound = [&](size_t i) { return expr.children[i] == nullptr ? Value() : evaluate(*expr.children[i]); };
  const Value begin = bound(1), end = bound(2), step = bound(3);
  return slice(runtime_, owner, begin, end, step);
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value* block) {
  const Expr* input = expr.children.front().get();
  // In a filter block the innermost filter has no operand of its own: it takes the block's text.
  const Value value = input == nullptr                                         ? *block
                      : block != nullptr && input->kind == Expr::Kind::kFilter ? evaluate_filter(*input, block)
                                                                               : evaluate(*input);
  return apply_filter(runtime_, expr.name, value, evaluate_arguments(expr));
}

Arguments Interpreter::evaluate_arguments(const Expr& expr) {
  Arguments arguments;
  for (const Argument& argument : expr.arguments) {
    Value value = evaluate(*argument.value);
    switch (argument.kind) {
      case Argument::Kind::kPositional:
        arguments.positional.push_back(std::move(value));
        break;
      case Argument::Kind::kNamed:
        arguments.named.emplace_back(argument.name, std::move(value));
        break;
      case Argument::Kind::kSpread:
        for (Value& item : items_of(value, runtime_.budget)) arguments.positional.push_back(std::move(item));
        break;
      case Argument::Kind::kSpreadNamed:
        if (!value.is_dict())
          throw Failure{fmt::format("argument after ** must be a mapping, not {}", type_name(value))};
        for (const auto& [key, item] : value.dict().entries) {
          if (!key.is_text()) throw Failure{"keywords must be strings"};
          arguments.named.emplace_back(key.text(), item);
        }
        break;
    }
  }
  return arguments;
}

Value Interpreter::look_up(std::string_view name) {
  for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (const Value* found = scope->find(name)) return *found;
    runtime_.budget.spend(1);
  }
  if (const Value* found = variables_.find(name)) return *found;
  return find_global(name);
}

}  // namespace spillway::text::jinja

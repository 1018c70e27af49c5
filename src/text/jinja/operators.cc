#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/sizes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

[[noreturn]] void fail_operands(std::string_view op, const Value& left, const Value& right) {
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  throw Failure{
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(left), type_name(right))};
}

[[noreturn]] void fail_overflow() { throw Failure{"expected an integer of 64 bits as a result, got a larger one"}; }

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) throw Failure{"division by zero"};
  if (a == INT64_MIN && b == -1) fail_overflow();
  const int64_t quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw Failure{"0.0 cannot be raised to a negative power"};
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return Value(result);
}

Value integer_op(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "/") {
    if (b == 0) throw Failure{"division by zero"};
    return Value(static_cast<double>(a) / static_cast<double>(b));
  } else if (op == "//") {
    result = floor_div(a, b);
  } else if (op == "%") {
    if (b == -1) return Value(int64_t{0});
    result = a - floor_div(a, b) * b;
  } else {
    return power(a, b);
  }
  if (overflow) fail_overflow();
  return Value(result);
}

Value real_op(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) throw Failure{"float division by zero"};
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest);
}

Value add_texts(Runtime& runtime, const Value& left, const Value& right) {
  runtime.budget.spend_bytes(left.text().size() + right.text().size());
  if (left.is_markup() == right.is_markup()) return Value(left.text() + right.text(), left.is_markup());
  const std::string a = left.is_markup() ? left.text() : escape_html(left.text());
  return Value(a + (right.is_markup() ? right.text() : escape_html(right.text())), true);
}

bool is_list_or_tuple(const Value& value) {
  return value.is_sequence() &&
         (value.sequence().kind == Sequence::Kind::kList || value.sequence().kind == Sequence::Kind::kTuple);
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const int64_t size =
      value.is_text() ? static_cast<int64_t>(value.text().size()) : static_cast<int64_t>(value.sequence().items.size());
  int64_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) fail_overflow();
  if (value.is_text()) {
    runtime.budget.spend_bytes(static_cast<size_t>(total));
    std::string text;
    if (size > 0) {
      reserve(text, total);
      for (int64_t i = 0; i < times; ++i) text += value.text();
    }
    return Value(std::move(text), value.is_markup());
  }
  runtime.budget.spend(total);
  std::vector<Value> items;
  for (int64_t i = 0; size > 0 && i < times; ++i) {
    items.insert(items.end(), value.sequence().items.begin(), value.sequence().items.end());
  }
  return make_sequence(std::move(items), value.sequence().kind);
}

// Adjusts a slice bound as Python does.
int64_t clamp_bound(const Value& bound, int64_t fallback, int64_t size, bool backwards) {
  if (bound.is_none()) return fallback;
  int64_t at = as_integer(bound, "a slice");
  if (at < 0) at = at < -size ? -1 : at + size;
  if (backwards) return std::min(at, size - 1);
  return std::clamp<int64_t>(at < 0 ? 0 : at, 0, size);
}

std::string object_text(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", type_name(value));
}

Value missing_attribute(const Value& value, std::string_view name) {
  return make_undefined(fmt::format("'{}' has no attribute '{}'", object_text(value), name));
}

std::optional<Value> behaviour(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_object()) {
    if (auto* names = dynamic_cast<Namespace*>(value.object().get())) {
      const Value* found = names->attributes.find(name);
      return found == nullptr ? std::nullopt : std::optional<Value>(*found);
    }
    auto* object = dynamic_cast<WithAttributes*>(value.object().get());
    return object == nullptr ? std::nullopt : object->attribute(runtime, name);
  }
  if (name.starts_with("__") && name.ends_with("__")) {
    return make_undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(value)));
  }
  return find_method(value, name);
}

}  // namespace

Value make_undefined(std::string message) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
}

Value binary(Runtime& runtime, std::string_view op, const Value& left, const Value& right) {
  if (op == "%" && left.is_text()) {
    std::string text = format_percent(runtime, left.text(), right);
    return Value(std::move(text), left.is_markup());
  }
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) return real_op(op, as_real(left), as_real(right));
    return integer_op(op, as_integer(left, ""), as_integer(right, ""));
  }
  if (op == "+" && left.is_text() && right.is_text()) return add_texts(runtime, left, right);
  if (op == "+" && is_list_or_tuple(left) && is_list_or_tuple(right) && left.sequence().kind == right.sequence().kind) {
    std::vector<Value> items = items_of(left, runtime.budget);
    const std::vector<Value> more = items_of(right, runtime.budget);
    items.insert(items.end(), more.begin(), more.end());
    return make_sequence(std::move(items), left.sequence().kind);
  }
  if (op == "*") {
    const auto repeatable = [](const Value& value) { return value.is_text() || is_list_or_tuple(value); };
    const auto count = [](const Value& value) { return value.is_int() || value.is_bool(); };
    if (repeatable(left) && count(right)) return repeat(runtime, left, as_integer(right, ""));
    if (count(left) && repeatable(right)) return repeat(runtime, right, as_integer(left, ""));
  }
  if (op == "+" && left.is_text() && !right.is_undefined()) {
    throw Failure{fmt::format("can only concatenate str (not \"{}\") to str", type_name(right))};
  }
  fail_operands(op, left, right);
}

Value negate(const Value& value) {
  if (value.is_float()) return Value(-value.real());
  if (value.is_number()) return integer_op("-", 0, as_integer(value, ""));
  if (value.is_undefined()) fail_undefined(value);
  throw Failure{fmt::format("bad operand type for unary -: '{}'", type_name(value))};
}

Value attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail_undefined(value);
  if (auto found = behaviour(runtime, value, name)) return *found;
  if (value.is_dict()) {
    if (const Value* found = value.dict().find(name)) return *found;
  }
  return missing_attribute(value, name);
}

Value item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) fail_undefined(value);
  const bool indexable =
      value.is_text() ||
      (value.is_sequence() && (is_list_or_tuple(value) || value.sequence().kind == Sequence::Kind::kRange));
  if (value.is_dict()) {
    const bool hashable =
        !key.is_dict() && !key.is_undefined() && !(key.is_sequence() && key.sequence().kind != Sequence::Kind::kTuple);
    if (const Value* found = hashable ? value.dict().find(key) : nullptr) return *found;
  } else if (indexable && (key.is_int() || key.is_bool())) {
    int64_t at = as_integer(key, "");
    if (value.is_text()) {
      runtime.budget.spend_bytes(value.text().size());
      const auto offsets = char_offsets(value.text());
      const int64_t size = static_cast<int64_t>(offsets.size()) - 1;
      if (at < 0) at += size;
      if (at >= 0 && at < size) {
        const size_t from = nth(offsets, at), to = nth(offsets, at + 1);
        return Value(value.text().substr(from, to - from), value.is_markup());
      }
    } else {
      const auto& items = value.sequence().items;
      if (at < 0) at += static_cast<int64_t>(items.size());
      if (at >= 0 && at < static_cast<int64_t>(items.size())) return nth(items, at);
    }
  }
  if (key.is_text()) {
    if (auto found = behaviour(runtime, value, key.text())) return *found;
    return missing_attribute(value, key.text());
  }
  return make_undefined(fmt::format("{} has no element {}", object_text(value), repr(key, runtime.budget)));
}

Value slice(Runtime& runtime, const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (value.is_undefined()) fail_undefined(value);
  const bool sliceable = value.is_text() || is_list_or_tuple(value) ||
                         (value.is_sequence() && value.sequence().kind == Sequence::Kind::kRange);
  if (!sliceable) return make_undefined(fmt::format("{} has no slices", object_text(value)));
  const int64_t stride = step.is_none() ? 1 : as_integer(step, "a slice");
  if (stride == 0) throw Failure{"slice step cannot be zero"};
  const bool backwards = stride < 0;
  const std::vector<size_t> offsets = value.is_text() ? char_offsets(value.text()) : std::vector<size_t>();
  const int64_t size =
      value.is_text() ? static_cast<int64_t>(offsets.size()) - 1 : static_cast<int64_t>(value.sequence().items.size());
  const int64_t first = clamp_bound(begin, backwards ? size - 1 : 0, size, backwards);
  const int64_t last = clamp_bound(end, backwards ? -1 : size, size, backwards);
  runtime.budget.spend(1 + size / 8);
  if (value.is_text() && stride == 1) {
    const size_t from = nth(offsets, first), to = nth(offsets, std::max(first, last));
    return Value(value.text().substr(from, to - from), value.is_markup());
  }
  std::string text;
  std::vector<Value> items;
  for (int64_t at = first; backwards ? at > last : at < last;) {
    if (value.is_text()) {
      const size_t from = nth(offsets, at), to = nth(offsets, at + 1);
      text += value.text().substr(from, to - from);
    } else {
      items.push_back(nth(value.sequence().items, at));
    }
    if (__builtin_add_overflow(at, stride, &at)) break;
  }
  if (value.is_text()) return Value(std::move(text), value.is_markup());
  return make_sequence(std::move(items), value.sequence().kind);
}

Value call(Runtime& runtime, const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) fail_undefined(callee);
  auto* callable = callee.is_object() ? dynamic_cast<Callable*>(callee.object().get()) : nullptr;
  if (callable == nullptr) throw Failure{fmt::format("'{}' object is not callable", type_name(callee))};
  return callable->call(runtime, arguments);
}

std::vector<Value> bind(std::string_view function, const Arguments& arguments,
                        std::initializer_list<Formal> parameters) {
  if (arguments.positional.size() > parameters.size()) {
    throw Failure{fmt::format("{}() takes at most {} arguments, got {}", function, parameters.size(),
                              arguments.positional.size())};
  }
  std::vector<std::optional<Value>> bound(parameters.size());
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found =
        std::find_if(parameters.begin(), parameters.end(), [&n = name](const Formal& p) { return p.name == n; });
    if (found == parameters.end()) throw Failure{fmt::format("{}() has no argument named '{}'", function, name)};
    auto& slot = nth(bound, found - parameters.begin());
    if (slot) throw Failure{fmt::format("{}() got two values for '{}'", function, name)};
    slot = value;
  }
  std::vector<Value> values;
  values.reserve(bound.size());
  size_t i = 0;
  for (const Formal& parameter : parameters) {
    std::optional<Value>& slot = bound[i++];
    if (!slot && !parameter.fallback)
      throw Failure{fmt::format("{}() is missing its argument '{}'", function, parameter.name)};
    values.push_back(slot ? *slot : *parameter.fallback);
  }
  return values;
}

}  // namespace spillway::text::jinja

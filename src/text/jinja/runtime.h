// What operators, filters, tests and methods share while a template renders.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace spillway::text::jinja {

struct Namespace;

// The state of one rendering that built-in functions need.
struct Runtime {
  Budget budget;
  std::tm now{};
  // All that were made. A namespace may hold itself; emptying them at the end breaks such rings.
  std::vector<std::shared_ptr<Namespace>> namespaces;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Something a template can call.
struct Callable : Object {
  [[nodiscard]] virtual Value call(Runtime& runtime, const Arguments& arguments) = 0;
};
// Throws Failure where `callee` cannot be called.
[[nodiscard]] Value call(Runtime& runtime, const Value& callee, const Arguments& arguments);

// namespace(...): the one thing a template can change from inside a loop.
struct Namespace : Object {
  Dict attributes;
  [[nodiscard]] std::string_view type_name() const override { return "Namespace"; }
};

// transformers refuses attributes with a leading underscore on a namespace; so does this, by Failure.
void check_attribute_name(const Value& name);

// An object whose attributes a template reads, as `loop`.
struct WithAttributes : Callable {
  // Nothing where there is no such attribute.
  [[nodiscard]] virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name) = 0;
};

struct Formal {
  std::string_view name;
  std::optional<Value> fallback = std::nullopt;
};
// The arguments in the order of `parameters`. Throws Failure for one that is missing, unknown or given twice.
[[nodiscard]] std::vector<Value> bind(std::string_view function, const Arguments& arguments,
                                      std::initializer_list<Formal> parameters);

// left op right for + - * / // % **, as Python computes it; integers beyond 64 bits are a Failure.
[[nodiscard]] Value binary(Runtime& runtime, std::string_view op, const Value& left, const Value& right);
[[nodiscard]] Value negate(const Value& value);

// value.name and value[key] as the sandbox looks them up: attributes first and items second, or the other way round.
// What is not there gives an undefined value; anything of an undefined value is a Failure.
[[nodiscard]] Value attribute(Runtime& runtime, const Value& value, std::string_view name);
[[nodiscard]] Value item(Runtime& runtime, const Value& value, const Value& key);
// value[begin:end:step]; bounds may be none.
[[nodiscard]] Value slice(Runtime& runtime, const Value& value, const Value& begin, const Value& end,
                          const Value& step);

[[nodiscard]] Value make_undefined(std::string message);

// A method of a string, list or dict, bound to it; nothing where the type has none of that name.
[[nodiscard]] std::optional<Value> find_method(const Value& self, std::string_view name);

}  // namespace spillway::text::jinja

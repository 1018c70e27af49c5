// The state and functions that operators, filters, tests and methods share while a template renders.
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
  // All namespaces that were made. One may hold itself; emptying them at the end breaks such rings.
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
// Calls `callee`. Throws Failure if it cannot be called.
[[nodiscard]] Value call(Runtime& runtime, const Value& callee, const Arguments& arguments);

// namespace(...): the only value that a template can change from inside a loop.
struct Namespace : Object {
  Dict attributes;
  [[nodiscard]] std::string_view type_name() const override { return "Namespace"; }
};

// Throws Failure for attributes with a leading underscore on a namespace, as transformers does.
void check_attribute_name(const Value& name);

// An object whose attributes a template reads, such as `loop`.
struct WithAttributes : Callable {
  // Returns nullopt if there is no such attribute.
  [[nodiscard]] virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name) = 0;
};

struct Formal {
  std::string_view name;
  std::optional<Value> fallback = std::nullopt;
};
// Returns the arguments in the order of `parameters`. Throws Failure for one that is missing, unknown or given twice.
[[nodiscard]] std::vector<Value> bind(std::string_view function, const Arguments& arguments,
                                      std::initializer_list<Formal> parameters);

// Returns left op right for + - * / // % **, as Python computes it; throws Failure for integers beyond 64 bits.
[[nodiscard]] Value binary(Runtime& runtime, std::string_view op, const Value& left, const Value& right);
[[nodiscard]] Value negate(const Value& value);

// Look up value.name and value[key] by the sandbox's rules: attributes first and items second, or the other way round.
// A missing one gives an undefined value; looking up anything of an undefined value throws Failure.
[[nodiscard]] Value attribute(Runtime& runtime, const Value& value, std::string_view name);
[[nodiscard]] Value item(Runtime& runtime, const Value& value, const Value& key);
// Returns value[begin:end:step]; bounds may be none.
[[nodiscard]] Value slice(Runtime& runtime, const Value& value, const Value& begin, const Value& end,
                          const Value& step);

[[nodiscard]] Value make_undefined(std::string message);

// Returns a method of a string, list or dict, bound to it; nullopt if the type has none of that name.
[[nodiscard]] std::optional<Value> find_method(const Value& self, std::string_view name);

}  // namespace spillway::text::jinja

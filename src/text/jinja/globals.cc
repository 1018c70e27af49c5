// Functions that every template can call.
#include <fmt/format.h>

#include <array>

#include "text/jinja/builtins.h"

namespace spillway::text::jinja {
namespace {

// The sandbox's limit of a range.
constexpr int64_t kMaxRange = 100000;

struct Function : Callable {
  using Body = Value (*)(Runtime& runtime, const Arguments& arguments);
  explicit Function(Body function) : body(function) {}
  [[nodiscard]] std::string_view type_name() const override { return "function"; }
  [[nodiscard]] Value call(Runtime& runtime, const Arguments& arguments) override { return body(runtime, arguments); }
  Body body;
};

Value range(Runtime& runtime, const Arguments& arguments) {
  const auto args = bind("range", arguments, {{"start"}, {"stop", Value()}, {"step", Value(1)}});
  const bool one = args[1].is_none();
  const int64_t start = one ? 0 : as_integer(args[0], "range()"), stop = as_integer(args[one ? 0 : 1], "range()");
  const int64_t step = as_integer(args[2], "range()");
  if (step == 0) throw Failure{"range() arg 3 must not be zero"};
  const double count = (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
  if (count > static_cast<double>(kMaxRange)) {
    throw Failure{fmt::format("expected a range of at most {} numbers, got a larger one", kMaxRange)};
  }
  std::vector<Value> numbers;
  for (int64_t number = start; step > 0 ? number < stop : number > stop;) {
    runtime.budget.spend(1);
    numbers.emplace_back(number);
    if (__builtin_add_overflow(number, step, &number)) break;
  }
  return make_sequence(std::move(numbers), Sequence::Kind::kRange);
}

// Does dict(pairs or a dict, name=value, ...).
Dict make_entries(Runtime& runtime, std::string_view function, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1)
    throw Failure{fmt::format("{} expected at most 1 argument, got {}", function, arguments.positional.size())};
  for (const Value& source : arguments.positional) {
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict().entries) dict.set(key, value);
      runtime.budget.spend(static_cast<int64_t>(source.dict().entries.size()));
      continue;
    }
    for (const Value& pair : items_of(source, runtime.budget)) {
      const auto parts = items_of(pair, runtime.budget);
      if (parts.size() != 2) throw Failure{fmt::format("expected pairs for {}, got {} items", function, parts.size())};
      dict.set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value);
  return dict;
}

Value make_dict_value(Runtime& runtime, const Arguments& arguments) {
  return Value(std::make_shared<Dict>(make_entries(runtime, "dict", arguments)));
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  space->attributes = make_entries(runtime, "namespace", arguments);
  for (const auto& [name, value] : space->attributes.entries) check_attribute_name(name);
  runtime.namespaces.push_back(space);
  return Value(std::shared_ptr<Object>(std::move(space)));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  throw RaisedByTemplate{to_text(bind("raise_exception", arguments, {{"message"}})[0], runtime.budget)};
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Value format = bind("strftime_now", arguments, {{"format"}})[0];
  if (!format.is_text()) throw Failure{fmt::format("expected a string for strftime_now, got '{}'", type_name(format))};
  std::array<char, 4096> buffer;
  const size_t length = std::strftime(buffer.data(), buffer.size(), format.text().c_str(), &runtime.now);
  return Value(std::string(buffer.data(), length));
}

struct NamedFunction {
  std::string_view name;
  Function::Body body;
};

constexpr std::array kGlobals = {
    NamedFunction{"range", range},
    NamedFunction{"dict", make_dict_value},
    NamedFunction{"namespace", make_namespace},
    NamedFunction{"raise_exception", raise_exception},
    NamedFunction{"strftime_now", strftime_now},
};

}  // namespace

void check_attribute_name(const Value& name) {
  if (name.is_text() && name.text().starts_with('_')) {
    throw Failure{fmt::format("expected an attribute name without a leading underscore, got '{}'", name.text())};
  }
}

Value find_global(std::string_view name) {
  for (const NamedFunction& entry : kGlobals) {
    if (entry.name == name) return Value(std::shared_ptr<Object>(std::make_shared<Function>(entry.body)));
  }
  // Returns the blocks of the template, by name; a template in one piece has none.
  if (name == "self") return Value(std::shared_ptr<Object>(std::make_shared<Namespace>()));
  return make_undefined(fmt::format("'{}' is undefined", name));
}

}  // namespace spillway::text::jinja

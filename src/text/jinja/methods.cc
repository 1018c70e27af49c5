// Methods of strings, lists and dicts. Methods that would change a list or dict are refused, as in the sandbox.
#include "text/jinja/methods.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace spillway::text::jinja {
namespace {

struct BoundMethod : Callable {
  BoundMethod(Value owner, Method function) : self(std::move(owner)), method(function) {}
  [[nodiscard]] std::string_view type_name() const override { return "builtin_function_or_method"; }
  [[nodiscard]] int depth() const override { return depth_of(self) + 1; }
  [[nodiscard]] Value call(Runtime& runtime, const Arguments& arguments) override {
    return method(runtime, self, arguments);
  }
  Value self;
  Method method;
};

Value get_method(Runtime&, const Value& self, const Arguments& arguments) {
  const auto args = bind("get", arguments, {{"key"}, {"default", Value()}});
  const Value* found = self.dict().find(args[0]);
  return found == nullptr ? args[1] : *found;
}

template <Sequence::Kind kKind>
Value view_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  (void)bind("items", arguments, {});
  std::vector<Value> items;
  runtime.budget.spend(static_cast<int64_t>(self.dict().entries.size()) * 2);
  for (const auto& [key, value] : self.dict().entries) {
    if (kKind == Sequence::Kind::kItems) {
      items.push_back(make_sequence({key, value}, Sequence::Kind::kTuple));
    } else {
      items.push_back(kKind == Sequence::Kind::kKeys ? key : value);
    }
  }
  return make_sequence(std::move(items), kKind);
}

Value copy_method(Runtime&, const Value& self, const Arguments&) { return self; }

Value index_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value wanted = bind("index", arguments, {{"value"}})[0];
  const auto& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], wanted, runtime.budget)) return Value(static_cast<int64_t>(i));
  }
  throw Failure{fmt::format("{} is not in list", repr(wanted, runtime.budget))};
}

Value count_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value wanted = bind("count", arguments, {{"value"}})[0];
  int64_t count = 0;
  for (const Value& have : self.sequence().items) count += equal(have, wanted, runtime.budget) ? 1 : 0;
  return Value(count);
}

Value is_integer_method(Runtime&, const Value& self, const Arguments&) {
  return Value(self.real() == static_cast<double>(static_cast<int64_t>(self.real())));
}

constexpr std::array kDictMethods = {
    NamedMethod{"get", get_method},
    NamedMethod{"keys", view_method<Sequence::Kind::kKeys>},
    NamedMethod{"values", view_method<Sequence::Kind::kValues>},
    NamedMethod{"items", view_method<Sequence::Kind::kItems>},
    NamedMethod{"copy", copy_method},
};

constexpr std::array kListMethods = {
    NamedMethod{"index", index_method},
    NamedMethod{"count", count_method},
    NamedMethod{"copy", copy_method},
};

constexpr std::array kFloatMethods = {NamedMethod{"is_integer", is_integer_method}};

constexpr std::array<std::string_view, 5> kDictMutators = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> kListMutators = {"append", "clear", "pop",    "reverse",
                                                           "insert", "sort",  "extend", "remove"};

template <size_t kCount>
bool refuses(const std::array<std::string_view, kCount>& mutators, std::string_view name) {
  return std::find(mutators.begin(), mutators.end(), name) != mutators.end();
}

Method find_method_of(const Value& self, std::string_view name) {
  if (self.is_text()) {
    const Method found = find_search_method(name);
    return found != nullptr ? found : find_form_method(name);
  }
  if (self.is_dict()) return find_in(kDictMethods, name);
  if (self.is_float()) return find_in(kFloatMethods, name);
  const bool indexable = self.is_sequence() && self.sequence().kind <= Sequence::Kind::kRange;
  return indexable ? find_in(kListMethods, name) : nullptr;
}

bool is_mutator(const Value& self, std::string_view name) {
  if (self.is_dict()) return refuses(kDictMutators, name);
  return self.is_sequence() && self.sequence().kind == Sequence::Kind::kList && refuses(kListMutators, name);
}

}  // namespace

const std::string& text_argument(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_text()) throw Failure{fmt::format("expected a string for {}, got '{}'", what, type_name(value))};
  return value.text();
}

Value like(const Value& self, std::string text) { return Value(std::move(text), self.is_markup()); }

std::optional<Value> find_method(const Value& self, std::string_view name) {
  if (is_mutator(self, name)) {
    return make_undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(self)));
  }
  const Method found = find_method_of(self, name);
  if (found == nullptr) return std::nullopt;
  return Value(std::make_shared<BoundMethod>(self, found));
}

}  // namespace spillway::text::jinja

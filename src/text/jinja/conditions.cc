// Jinja's tests: `value is name`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

struct NamedTest {
  std::string_view name;
  Test test;
};

template <bool (*kIs)(const Value&)>
bool simple(Runtime&, const Value& input, const Arguments& arguments) {
  (void)bind("test", arguments, {});
  return kIs(input);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is_bool(); }
bool is_true(const Value& v) { return v.is_bool() && v.boolean(); }
bool is_false(const Value& v) { return v.is_bool() && !v.boolean(); }
bool is_integer(const Value& v) { return v.is_int() || v.is_big_integer(); }
bool is_float(const Value& v) { return v.is_float() && !v.is_big_integer(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_callable(const Value& v) { return v.is_object() && dynamic_cast<Callable*>(v.object().get()) != nullptr; }
bool is_escaped(const Value& v) { return v.is_markup(); }
// Returns true if it has a length and can be indexed: strings and dicts are sequences, too.
bool is_sequence(const Value& v) {
  return v.is_undefined() || v.is_text() || v.is_dict() ||
         (v.is_sequence() && v.sequence().kind <= Sequence::Kind::kRange);
}

template <bool kUpper>
bool is_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("test", arguments, {});
  const Value text(to_text(input, runtime.budget));
  return truthy(call(runtime, *find_method(text, kUpper ? "isupper" : "islower"), {}));
}

int64_t remainder(Runtime& runtime, const Value& input, const Value& by) {
  const Value rest = binary(runtime, "%", input, by);
  return truthy(rest) ? 1 : 0;
}
bool is_odd(Runtime& runtime, const Value& input, const Arguments&) { return remainder(runtime, input, Value(2)) == 1; }
bool is_even(Runtime& runtime, const Value& input, const Arguments&) {
  return remainder(runtime, input, Value(2)) == 0;
}
bool is_divisible(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return remainder(runtime, input, bind("divisibleby", arguments, {{"num"}})[0]) == 0;
}

bool is_equal(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return equal(input, bind("eq", arguments, {{"other"}})[0], runtime.budget);
}
bool is_unequal(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return !is_equal(runtime, input, arguments);
}
bool is_less(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return compare(input, bind("lt", arguments, {{"other"}})[0], "<", runtime.budget) < 0;
}
bool is_less_or_equal(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return compare(input, bind("le", arguments, {{"other"}})[0], "<=", runtime.budget) <= 0;
}
bool is_greater(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return compare(input, bind("gt", arguments, {{"other"}})[0], ">", runtime.budget) > 0;
}
bool is_greater_or_equal(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return compare(input, bind("ge", arguments, {{"other"}})[0], ">=", runtime.budget) >= 0;
}
bool is_in(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return contains(bind("in", arguments, {{"seq"}})[0], input, runtime.budget);
}
bool is_same(Runtime&, const Value& input, const Arguments& arguments) {
  return input.same(bind("sameas", arguments, {{"other"}})[0]);
}
bool is_filter(Runtime& runtime, const Value& input, const Arguments&) {
  return filter_exists(to_text(input, runtime.budget));
}
bool is_test(Runtime& runtime, const Value& input, const Arguments&) {
  return test_exists(to_text(input, runtime.budget));
}

constexpr std::array kTests = {
    NamedTest{"defined", simple<is_defined>},
    NamedTest{"undefined", simple<is_undefined>},
    NamedTest{"none", simple<is_none>},
    NamedTest{"boolean", simple<is_boolean>},
    NamedTest{"true", simple<is_true>},
    NamedTest{"false", simple<is_false>},
    NamedTest{"integer", simple<is_integer>},
    NamedTest{"float", simple<is_float>},
    NamedTest{"number", simple<is_number>},
    NamedTest{"string", simple<is_string>},
    NamedTest{"mapping", simple<is_mapping>},
    NamedTest{"iterable", simple<is_iterable>},
    NamedTest{"sequence", simple<is_sequence>},
    NamedTest{"callable", simple<is_callable>},
    NamedTest{"escaped", simple<is_escaped>},
    NamedTest{"lower", is_case<false>},
    NamedTest{"upper", is_case<true>},
    NamedTest{"odd", is_odd},
    NamedTest{"even", is_even},
    NamedTest{"divisibleby", is_divisible},
    NamedTest{"eq", is_equal},
    NamedTest{"==", is_equal},
    NamedTest{"equalto", is_equal},
    NamedTest{"ne", is_unequal},
    NamedTest{"!=", is_unequal},
    NamedTest{"lt", is_less},
    NamedTest{"<", is_less},
    NamedTest{"lessthan", is_less},
    NamedTest{"le", is_less_or_equal},
    NamedTest{"<=", is_less_or_equal},
    NamedTest{"gt", is_greater},
    NamedTest{">", is_greater},
    NamedTest{"greaterthan", is_greater},
    NamedTest{"ge", is_greater_or_equal},
    NamedTest{">=", is_greater_or_equal},
    NamedTest{"in", is_in},
    NamedTest{"sameas", is_same},
    NamedTest{"filter", is_filter},
    NamedTest{"test", is_test},
};

Test find_test(std::string_view name) {
  const auto* found = std::find_if(kTests.begin(), kTests.end(), [&](const NamedTest& t) { return t.name == name; });
  return found == kTests.end() ? nullptr : found->test;
}

}  // namespace

bool test_exists(std::string_view name) { return find_test(name) != nullptr; }

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const Test test = find_test(name);
  if (test == nullptr) throw Failure{fmt::format("expected a test of Jinja's, got '{}'", name)};
  return test(runtime, input, arguments);
}

}  // namespace spillway::text::jinja

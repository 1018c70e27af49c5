// Helpers of the methods of strings, lists and dicts, and the tables by subject.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace spillway::text::jinja {

using Method = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

struct NamedMethod {
  std::string_view name;
  Method method;
};

template <size_t kCount>
[[nodiscard]] Method find_in(const std::array<NamedMethod, kCount>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const NamedMethod& one) { return one.name == name; });
  return found == table.end() ? nullptr : found->method;
}

// Find methods of strings, by subject; nullptr if the subject has none of that name.
[[nodiscard]] Method find_search_method(std::string_view name);
[[nodiscard]] Method find_form_method(std::string_view name);

// Returns the string that an argument must be; throws Failure naming `what` for anything else.
[[nodiscard]] const std::string& text_argument(const Value& value, std::string_view what);
// Returns a string that is marked safe if `self` is.
[[nodiscard]] Value like(const Value& self, std::string text);

}  // namespace spillway::text::jinja

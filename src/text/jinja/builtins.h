// The tables of filters, tests and global functions.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace spillway::text::jinja {

using Filter = Value (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
using Test = bool (*)(Runtime& runtime, const Value& input, const Arguments& arguments);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

[[nodiscard]] bool filter_exists(std::string_view name);
[[nodiscard]] bool test_exists(std::string_view name);
// Both throw Failure for a name that does not exist.
[[nodiscard]] Value apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                                 const Arguments& arguments);
[[nodiscard]] bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);

// Find filters, by subject; nullptr if the subject has none of that name.
[[nodiscard]] Filter find_text_filter(std::string_view name);
[[nodiscard]] Filter find_sequence_filter(std::string_view name);
[[nodiscard]] Filter find_value_filter(std::string_view name);

// Returns range, namespace, dict, raise_exception or strftime_now; an undefined value for other names.
[[nodiscard]] Value find_global(std::string_view name);

// Thrown by raise_exception.
struct RaisedByTemplate {
  std::string message;
};

// Format "text" % values and "text".format(...), as Python does.
[[nodiscard]] std::string format_percent(Runtime& runtime, std::string_view format, const Value& values);
[[nodiscard]] std::string format_braces(Runtime& runtime, std::string_view format, const Arguments& arguments);

// Escapes text for HTML, for text marked safe.
[[nodiscard]] std::string escape_html(std::string_view text);

// Returns value.a.b.0 for the `attribute` argument of filters: a name with dots, or an index. A step that finds nothing
// gives `fallback` unless that is none.
[[nodiscard]] Value lookup_path(Runtime& runtime, const Value& value, const Value& path, const Value& fallback = {});

}  // namespace spillway::text::jinja

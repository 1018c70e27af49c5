// PEFT's patterns for modules (get_pattern_key).
#pragma once

#include <string_view>

namespace spillway {

// Whether the regular expression matches the end of a module's path behind a dot, or all of it. Throws InputError at
// `where` for what is no regular expression.
[[nodiscard]] bool matches_path_end(std::string_view pattern, std::string_view path, std::string_view where);

}  // namespace spillway

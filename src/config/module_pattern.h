// lora_target_modules as one text: a pattern, as PEFT takes it.
#pragma once

#include <string_view>

#include "text/tokenizer/regex.h"

namespace spillway::config {

// Returns true if a name is a pattern rather than a module's name or the end of its path.
[[nodiscard]] bool is_module_pattern(std::string_view name);

// Throws InputError at `where` for what is no regular expression.
void check_module_pattern(std::string_view pattern, std::string_view where);

// The pattern as what whole paths are searched with. Throws InputError at `where` for what is no regular expression.
[[nodiscard]] text::Regex whole_path(std::string_view pattern, std::string_view where);

}  // namespace spillway::config

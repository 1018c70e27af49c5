#include "config/module_pattern.h"

#include <fmt/format.h>

namespace spillway::config {

bool is_module_pattern(std::string_view name) { return name.find_first_of("\\*+?[](){}|^$") != std::string_view::npos; }

void check_module_pattern(std::string_view pattern, std::string_view where) {
  (void)text::Regex(pattern, where);  // as written, so that a message counts bytes from its start
  (void)whole_path(pattern, where);
}

text::Regex whole_path(std::string_view pattern, std::string_view where) {
  return {fmt::format("^(?:{})$", pattern), where};
}

}  // namespace spillway::config

// The names that `chat_template` takes.
#pragma once

#include <string_view>

namespace spillway::config {

// Throws InputError at `where` for a name that is none (with the nearest), NotYetError for one of axolotl's whose
// template is to come. An empty name is fine.
void check_template_name(std::string_view name, std::string_view where);

}  // namespace spillway::config

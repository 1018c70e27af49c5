// Text of the command line or a terminal, which may be anything.
#pragma once

#include <string_view>

namespace spillway {

// Throws InputError at `where` for text that is no UTF-8.
void check_text(std::string_view text, std::string_view where);

}  // namespace spillway

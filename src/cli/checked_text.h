// Checks text from the command line or a terminal.
#pragma once

#include <string_view>

namespace spillway {

// Throws InputError at `where` if the text is not UTF-8.
void check_text(std::string_view text, std::string_view where);

}  // namespace spillway

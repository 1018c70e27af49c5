#include "cli/checked_text.h"

#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"

namespace spillway {

void check_text(std::string_view text, std::string_view where) {
  if (const int64_t at = first_invalid_utf8(text); at >= 0)
    throw input_error(where, "expected UTF-8, got the byte 0x{:02x} at byte {}; save the text as UTF-8",
                      static_cast<unsigned char>(nth(text, at)), at + 1);
}

}  // namespace spillway

#include "base/error.h"

#include <cstdlib>

#include "base/log.h"

namespace spillway {

void report_bug(const char* file, int line, const char* condition, std::string_view text) {
  log_line(fmt::format("bug: {}:{}: {}: {}", file, line, condition, text));
  std::abort();
}

}  // namespace spillway

#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace spillway {

void report_bug(const char* file, int line, const char* condition, std::string_view text) {
  fmt::print(stderr, "bug: {}:{}: {}: {}\n", file, line, condition, text);
  std::abort();
}

}  // namespace spillway

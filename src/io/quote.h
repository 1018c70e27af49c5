// Text out of a file as an error message may show it.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// In double quotes, on one line: control characters and broken UTF-8 are escaped or replaced, long text is cut.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace spillway

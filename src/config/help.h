// The table of keys, for people.
#pragma once

#include <string>

namespace spillway::config {

// `spillway train --help-config`: a line a key, for a terminal.
[[nodiscard]] std::string config_help();

// The same as the page docs/config.md.
[[nodiscard]] std::string config_markdown();

}  // namespace spillway::config

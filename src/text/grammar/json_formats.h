// Formats of strings in JSON schemas.
#pragma once

#include <optional>
#include <string_view>

#include "text/grammar/json_rules.h"

namespace spillway::text {

// Returns the texts of a format, without quotes: `date`, `time` and `date-time` (RFC 3339), `uuid`. Days are those that
// their month has in every year. Returns nothing for other formats.
[[nodiscard]] std::optional<ByteGrammar::Part> format_part(ByteGrammar& grammar, JsonRules& rules,
                                                           std::string_view format);

}  // namespace spillway::text

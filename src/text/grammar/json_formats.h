// Formats of strings in JSON schemas.
#pragma once

#include <optional>
#include <string_view>

#include "text/grammar/json_rules.h"

namespace spillway::text {

// The formats that format_part() knows, for messages.
inline constexpr const char* kFormatNames = "date, time, date-time, uuid, email, hostname, ipv4, ipv6 or uri";

// Returns the texts of a format, without quotes: `date`, `time` and `date-time` (RFC 3339), `uuid`, and the usual ones
// of `email`, `hostname`, `ipv4`, `ipv6` (in full) and `uri` (of the web). Days are those that their month has in every
// year. Returns nothing for other formats.
[[nodiscard]] std::optional<ByteGrammar::Part> format_part(ByteGrammar& grammar, JsonRules& rules,
                                                           std::string_view format);

}  // namespace spillway::text

// Regular expressions in JSON schemas (`pattern`): ECMA-262's, without what no grammar can say.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/grammar/json_rules.h"

namespace spillway::text {

// Returns the texts of JSON strings, without quotes, that have a match of `pattern`: anywhere, unless ^ and $ say
// where. Characters that need no escape stand without one. Calls `refuse`, which must throw, with what is no regular
// expression or is not supported: anchors inside, word boundaries, lookaround, references to groups, \p.
[[nodiscard]] ByteGrammar::Part pattern_part(ByteGrammar& grammar, JsonRules& rules, std::string_view pattern,
                                             const std::function<void(const std::string& what)>& refuse);

}  // namespace spillway::text

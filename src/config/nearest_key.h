// The known key that an unknown one is likely to mean: a slip of the fingers, an abbreviation, a plural, or a key that
// stands elsewhere.
#pragma once

#include <span>
#include <string_view>

namespace spillway::config {

// Returns the name of `names` that is nearest to `key`, the first of equals; empty where none is near. Names are looked
// at word by word: `grad` is `gradient`, `lr` `learning_rate`, `token` is near `tokens`, and a name with one word more
// is near, too. A part before a dot (`special_tokens` of `special_tokens.pad_token`) is a name itself; the part behind
// the last dot alone means the whole name.
[[nodiscard]] std::string_view nearest_key(std::string_view key, std::span<const std::string_view> names);

}  // namespace spillway::config

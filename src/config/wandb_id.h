// The ids of runs in wandb.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace spillway::config {

// Throws InputError at `where` for an id that wandb does not take; an empty one is none, and fine.
inline void check_wandb_id(std::string_view id, std::string_view where) {
  constexpr std::string_view kForbidden = "/\\#?%:";  // wandb's own list
  constexpr size_t kMaxLetters = 128;
  if (id.find_first_of(kForbidden) == std::string_view::npos && id.size() <= kMaxLetters) return;
  throw input_error(where, "expected an id of at most {} letters without any of {}, got {}; choose another",
                    kMaxLetters, kForbidden, quote(id));
}

}  // namespace spillway::config

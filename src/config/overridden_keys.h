// Keys that set the same value by different names, where neither is an alias of the other: eval_steps and
// evals_per_epoch, sequence_len and max_length. A file with two that disagree is refused, each pair where it is
// resolved; the command line's key overrides the file's others.
#pragma once

#include <span>
#include <vector>

#include "config/settings.h"

namespace spillway::config {

// Removes the file's settings that a key of `said`, the command line's, overrides by another name. Where both keys take
// the same value, the file's key stays, with the rules that come with it, and gets the command line's value.
void drop_overridden(std::vector<Setting>& settings, std::span<const Setting> said);

}  // namespace spillway::config

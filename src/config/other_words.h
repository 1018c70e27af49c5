// Keys that settle the same in other words, where neither is an alias of the other: eval_steps and evals_per_epoch,
// sequence_len and max_length. In a file two that say different things are refused, each pair where it is resolved; on
// the command line one wins over the file's others.
#pragma once

#include <span>
#include <vector>

#include "config/settings.h"

namespace spillway::config {

// Takes out of `settings` what the file says in other words than a key of `said`, the command line's. Where both keys
// take the same value, the file's gets that of the command line and stays, as the rules that come with it do.
void drop_other_words(std::vector<Setting>& settings, std::span<const Setting> said);

}  // namespace spillway::config

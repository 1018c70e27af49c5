// The part of complete_config() that concerns data: which files, how they are read, how long their rows may be.
#pragma once

#include "config/check_base.h"

namespace spillway::config {

// Datasets in our words, whatever words named them, their types and templates, and what goes with a stream. Throws
// InputError.
void complete_data(Checks& c);

// sequence_len from max_length, and the rules that come with it. Throws InputError.
void complete_length(Checks& c);

}  // namespace spillway::config

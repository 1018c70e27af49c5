// DeepSpeed's config keys and what becomes of each.
#pragma once

#include "train/foreign_section.h"

namespace spillway::train {

[[nodiscard]] const ForeignTable& deepspeed_table();

}  // namespace spillway::train

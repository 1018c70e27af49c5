// DeepSpeed's config keys and what becomes of each.
#pragma once

#include "config/foreign_section.h"

namespace spillway::config {

[[nodiscard]] const ForeignTable& deepspeed_table();

}  // namespace spillway::config

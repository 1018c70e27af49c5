// Weights as bitsandbytes' 4-bit and 8-bit codes: in files, in the graph and in every tier.
#pragma once

#include "model/storage.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway {

// One value per part (ops::quantised_parts), whose products decode as they go.
[[nodiscard]] StoragePtr quantised_storage(const ops::QuantisedFormat& format);

}  // namespace spillway

// Weights as bitsandbytes' 4-bit and 8-bit codes: in files, in the graph and in every tier.
#pragma once

#include <optional>

#include "model/storage.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway {

// One value per part (ops::quantised_parts), whose products decode as they go.
[[nodiscard]] StoragePtr quantised_storage(const QuantisedFormat& format);

// The format of what quantised_storage() made; empty for other storages.
[[nodiscard]] std::optional<QuantisedFormat> quantised_format(const Storage& storage);

}  // namespace spillway

// Stores weights as bitsandbytes' 4-bit and 8-bit codes: in files, in the graph and in every tier.
#pragma once

#include <optional>

#include "model/storage.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway {

// Returns a storage with one value per part (ops::quantised_parts); its products decode on the fly.
[[nodiscard]] StoragePtr quantised_storage(const QuantisedFormat& format);

// Returns the format of a storage made by quantised_storage(); nothing for other storages.
[[nodiscard]] std::optional<QuantisedFormat> quantised_format(const Storage& storage);

}  // namespace spillway

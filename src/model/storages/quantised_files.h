// The linear layers of a folder that bitsandbytes has quantised (model/quantised/quantised_tensors.h).
#pragma once

#include <optional>

#include "io/safetensors.h"
#include "model/storage.h"
#include "tensor/quantised_format.h"

namespace spillway {

// As the folder's files keep them: those without codes are dense. Reads headers and quant_states. In a graph they are
// as those of quantised_storage(); what decodes codes is checked as it is read. Throws InputError where the folder has
// no codes, or codes in several formats.
[[nodiscard]] LinearStorage stored_linear_storage(const SafetensorsFolder& folder);

// The format of what stored_linear_storage() found; empty for other storages.
[[nodiscard]] std::optional<QuantisedFormat> stored_format(const Storage& storage);

}  // namespace spillway

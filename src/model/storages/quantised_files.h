// The storage of linear layers in a folder that bitsandbytes has quantised (model/quantised/quantised_tensors.h).
#pragma once

#include <optional>

#include "io/safetensors.h"
#include "model/storage.h"
#include "tensor/quantised_format.h"

namespace spillway {

// Returns the storage in the folder's files: layers without codes are dense. Reads headers and quant_states. In a graph
// the weights are as those of quantised_storage(); the tensors that decode them are checked as they are read. Throws
// InputError if the folder has no codes, or codes in several formats.
[[nodiscard]] LinearStorage stored_linear_storage(const SafetensorsFolder& folder);

// Returns the format of a storage that stored_linear_storage() found; nothing for other storages.
[[nodiscard]] std::optional<QuantisedFormat> stored_format(const Storage& storage);

}  // namespace spillway

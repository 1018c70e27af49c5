// Tensors of a model's files that belong to other parts of it (a tower that reads images). What is written of the model
// has copies of them, byte by byte or in another floating dtype.
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/parameters.h"

namespace spillway {

// Those of `folder`, in the order of their names; none of a model that stands alone.
[[nodiscard]] std::vector<TensorSpec> tensors_of_other_parts(const SafetensorsFolder& folder,
                                                             const ParameterTable& parameters);
// What of `folder` is copied as it is, whatever its dtype.
[[nodiscard]] TensorSpec spec_of_copy(const StoredTensor& tensor);
// Copies a tensor in little memory. REQUIRES: `writer` has spec_of_copy of it, of a floating one perhaps with another
// floating dtype.
void copy_tensor(const SafetensorsFolder& folder, const TensorSpec& tensor, SafetensorsFolderWriter& writer);

// "multi_modal_projector, vision_tower": what their names begin with, each once.
[[nodiscard]] std::vector<std::string> names_of_other_parts(const SafetensorsFolder& folder,
                                                            const ParameterTable& parameters);

}  // namespace spillway

// Tensors of a model's files that belong to other parts of it (such as an image tower). They are copied to files that
// are written of the model, byte by byte or in another floating dtype.
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/parameters.h"

namespace spillway {

// Returns those of `folder`, in the order of their names; none for a stand-alone model. Weights in FP8 and their scales
// are none of them: what is written says of no weight that it is FP8.
[[nodiscard]] std::vector<TensorSpec> tensors_of_wrapper_parts(const SafetensorsFolder& folder,
                                                               const ParameterTable& parameters);
// Warns where a model is written without weights of other parts.
void warn_of_parts_left_out(const SafetensorsFolder& folder, const ParameterTable& parameters);
// Returns the spec with which a tensor is copied unchanged, whatever its dtype.
[[nodiscard]] TensorSpec spec_of_copy(const StoredTensor& tensor);
// Copies a tensor, using little memory. REQUIRES: `writer` has its spec_of_copy(), possibly with another floating dtype
// if it is floating.
void copy_tensor(const SafetensorsFolder& folder, const TensorSpec& tensor, SafetensorsFolderWriter& writer);

// Returns the prefixes of their names, each once: "multi_modal_projector, vision_tower".
[[nodiscard]] std::vector<std::string> names_of_wrapper_parts(const SafetensorsFolder& folder,
                                                              const ParameterTable& parameters);

}  // namespace spillway

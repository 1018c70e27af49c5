// Tensors of a model's files that belong to other parts of it (such as an image tower). They are copied to files that
// are written of the model, byte by byte or in another floating dtype.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/parameters.h"

namespace spillway {

// Returns the other parts of which some weights are FP8: "model.layers.61" of layers that predict further tokens, or
// "vision_tower". They are left out of what is written, whole, since that says of no weight that it is FP8.
[[nodiscard]] std::set<std::string, std::less<>> parts_left_out(const SafetensorsFolder& folder,
                                                                const ParameterTable& parameters);
// Returns the part of a tensor of another part, as parts_left_out() names it.
[[nodiscard]] std::string part_of(std::string_view tensor);
// Returns those of `folder`, in the order of their names; none for a stand-alone model, and none of parts_left_out().
[[nodiscard]] std::vector<TensorSpec> tensors_of_wrapper_parts(const SafetensorsFolder& folder,
                                                               const ParameterTable& parameters);
// Warns where a model is written without other parts.
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

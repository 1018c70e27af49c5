// Stores the weights of linear layers and experts in FP8 E4M3 with scales, as many folders of the hub have them: a byte
// a weight, in files, in the graph and in every tier.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "io/safetensors.h"
#include "model/storage.h"
#include "tensor/quantised_format.h"

namespace spillway {

// Returns the storage of weights that a folder has as
//   NAME             F8_E4M3 [O, I], or of all experts of a layer [experts, O, I]
//   NAME_scale_inv   or NAME_scale, in a floating dtype: a factor of the codes' numbers for each block of the format,
//                    [O / rows, I / columns] rounded up; for a format without columns one for the weight, for equal
//                    groups of rows, or for each row, [], [1], [O] or [groups, 1]. The graph has one for each row.
//                    Those of experts have a dimension more.
// Linear layers are dense where the folder has no codes, and so are the experts of such layers. Scales of inputs
// (input_scale, activation_scale) are known and not read. Reads headers. Codes that are NaN, and scales below zero
// or beyond kMaxFp8Scale, are refused as they are read. Nothing is encoded.
// Throws InputError if the folder has no codes, codes without scales, or experts of a layer of which only some are
// codes.
// Source: transformers 5.24, integrations/finegrained_fp8.py (Fp8Dequantize); compressed-tensors (float-quantized).
[[nodiscard]] LinearStorage stored_fp8(const SafetensorsFolder& folder, const QuantisedFormat& format);

// The same for a folder without weights, of which only a plan is made: all linear layers and experts but `dense` ones
// are codes.
[[nodiscard]] LinearStorage planned_fp8(const QuantisedFormat& format, std::set<std::string, std::less<>> dense);

// Returns true for a tensor of the folder that is codes of FP8, and for one that stands beside codes.
[[nodiscard]] bool is_of_fp8(const SafetensorsFolder& folder, std::string_view tensor);

// Returns true for a storage of stored_fp8(), which encodes nothing: other weights than the files' have no place in it.
[[nodiscard]] bool is_stored_fp8(const Storage& storage);
// Returns true for one whose folder has scales of inputs.
[[nodiscard]] bool has_input_scales(const Storage& storage);

}  // namespace spillway

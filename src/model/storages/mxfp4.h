// Stores the experts of a mixture in MXFP4 (tensor/quantised_format.h), as gpt-oss's files have them: 4.25 bits a
// weight, in files, in the graph and in every tier.
#pragma once

#include "io/safetensors.h"
#include "model/storage.h"

namespace spillway {

// Returns the storage of weights whose transposes are codes: a weight [I, O] of an expert is rows of O, each of I / 32
// blocks. In files a tensor NAME [experts, I, O] is
//   NAME_blocks  u8 [experts, O, I / 32, 16], two codes a byte, the first one in the low half
//   NAME_scales  u8 [experts, O, I / 32]
// Scales with which a code stands for no number of bf16 are refused as they are read. Nothing is encoded.
// Source: transformers, integrations/mxfp4.py (convert_moe_packed_tensors).
[[nodiscard]] const StoragePtr& mxfp4_storage();

// Returns the storage in the folder's files: linear layers are dense, and so are the experts of layers that have no
// codes. Reads headers. Throws InputError if the folder has no codes.
[[nodiscard]] LinearStorage stored_mxfp4(const SafetensorsFolder& folder);

}  // namespace spillway

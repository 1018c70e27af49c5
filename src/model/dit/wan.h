// The Wan family of diffusion transformers for video (Peebles and Xie, 2022), with diffusers' names
// ("blocks.0.attn1.to_q.weight"). Each transformer block is one block of the graph, named as its module; the patch
// embedding and the head are two more. The embeddings of timestep, text and image, which every block reads, belong to
// no block.
#pragma once

#include <filesystem>
#include <string>

#include "model/dit/wan_config.h"
#include "model/model.h"

namespace spillway {

// `overrides` are those with which its config was read (model/config_overrides.h).
[[nodiscard]] ModelPtr make_wan(const WanConfig& config, std::string overrides = {});

// Throws InputError as read_wan_config() does.
[[nodiscard]] ModelPtr read_wan(const std::filesystem::path& folder, const std::string& overrides = {});

// Columns of a micro-batch of clips. Its sequences are clips; C is their capacity, p the number of elements in a patch.
extern const Column kPatches;            // f32 [T, in_channels * p], channels outermost in each patch
extern const Column kPatchPositions;     // i32 [T, 3]: frame, row, column of each patch in its clip
extern const Column kTimestepEmbedding;  // f32 [C, timestep_size]
extern const Column kText;               // f32 [C * text_tokens, text_width]
extern const Column kTextOffsets;        // i32 [C + 1]: where the text of each clip begins, and the end
extern const Column kImage;              // f32 [C * kImageTokens, image_width]
extern const Column kImageOffsets;       // i32 [C + 1]

// The number of an image's features beside a clip: CLIP's patches and its class token.
constexpr int64_t kImageTokens = 257;

}  // namespace spillway

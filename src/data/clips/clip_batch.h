// Samples as micro-batches: a stream of patches, whose convolution is then a matrix product.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "data/clips/clip.h"
#include "data/clips/clip_sample.h"

namespace spillway::data {

// Columns of a MicroBatch of clips: numbers. T: patches of all clips, pt ph pw: elements of a patch.
inline constexpr std::string_view kPatches = "patches";    // [T, in_channels pt ph pw]: channel, frame, row, column
inline constexpr std::string_view kFlowTarget = "target";  // [T, pt ph pw channels]: frame, row, column, channel
inline constexpr std::string_view kClipText = "text";      // [clips text_len, text_width]
inline constexpr std::string_view kTimestepEmbedding = "timestep_embedding";  // [clips, timestep_size]
inline constexpr std::string_view kSigma = "sigma";                           // [clips]
inline constexpr std::string_view kClipImage = "image";  // [image rows, image_width], for models with images
// Indices: where each clip's rows begin, and the end.
inline constexpr std::string_view kTextOffsets = "text_offsets", kImageOffsets = "image_offsets";  // [clips + 1]

// Puts a clip behind those that the micro-batch holds: patches in the order frame, row, column, each with these as its
// three positions, from 0; `patches` holds x = (1 - sigma) z + sigma noise and behind its channels those of
// first_frame, `target` noise - z, both in f32; seq_offsets, targets and rows count clips. Allocates only to grow.
// REQUIRES: the sample is of a row that met the demands.
void add_to_micro_batch(MicroBatch& batch, const ClipSample& sample, const ClipDemands& demands);

// A prediction [patches, pt ph pw channels], laid out as kFlowTarget, as latents [channels, frames, height, width].
// REQUIRES: as many elements as the shape has, which the patch divides.
[[nodiscard]] std::vector<float> unpatchify(std::span<const float> prediction, const ClipShape& shape,
                                            const std::array<int64_t, 3>& patch);

}  // namespace spillway::data

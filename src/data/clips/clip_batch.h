// Micro-batches of clips: a stream of patches, on which the patch convolution is a matrix product.
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

// Number columns of a MicroBatch of clips. T: patches of all clips; pt, ph, pw: the size of a patch.
inline constexpr std::string_view kPatches = "patches";    // [T, in_channels pt ph pw]: channel, frame, row, column
inline constexpr std::string_view kFlowTarget = "target";  // [T, pt ph pw channels]: frame, row, column, channel
inline constexpr std::string_view kClipText = "text";      // [clips text_len, text_width]
inline constexpr std::string_view kTimestepEmbedding = "timestep_embedding";  // [clips, timestep_size]
inline constexpr std::string_view kSigma = "sigma";                           // [clips]
inline constexpr std::string_view kClipImage = "image";  // [image rows, image_width], for models with images
// Index columns: where each clip's rows begin, and the end.
inline constexpr std::string_view kTextOffsets = "text_offsets", kImageOffsets = "image_offsets";  // [clips + 1]

// Appends a clip to the micro-batch. Its patches come in the order frame, row, column, with these three numbers, from
// 0, as positions. `patches` holds x = (1 - sigma) z + sigma noise, followed by the channels of first_frame; `target`
// holds noise - z; both are f32. seq_offsets, targets and rows count clips. Allocates only to grow. REQUIRES: the row
// of the sample meets the demands.
void add_to_micro_batch(MicroBatch& batch, const ClipSample& sample, const ClipDemands& demands);

// Converts a prediction [patches, pt ph pw channels], laid out as kFlowTarget, to latents [channels, frames, height,
// width]. REQUIRES: the patch divides the shape, and the prediction has as many elements.
[[nodiscard]] std::vector<float> unpatchify(std::span<const float> prediction, const ClipShape& shape,
                                            const std::array<int64_t, 3>& patch);

}  // namespace spillway::data

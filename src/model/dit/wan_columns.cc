// Typical content of the columns of clips, for measuring.
#include <algorithm>

#include "base/random.h"
#include "model/dit/wan.h"

namespace spillway {
namespace {

void fill_typical_floats(const TensorView& view, const TypicalBatch&) {
  RandomStream random(1, 0);
  std::generate_n(view.as<float>(), view.elems(), [&] { return 2 * random.uniform() - 1; });
}

// Fills in the positions of a clip with one row of patches.
void fill_typical_patch_positions(const TensorView& view, const TypicalBatch& batch) {
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    int32_t* const position = view.as<int32_t>() + 3 * i;
    position[0] = position[1] = 0;
    position[2] = static_cast<int32_t>(i % batch.sequence_len);
  }
}

void fill_offsets(const TensorView& view, int64_t each) {
  for (int64_t i = 0; i < view.elems(); ++i) view.as<int32_t>()[i] = static_cast<int32_t>(i * each);
}
void fill_typical_text_offsets(const TensorView& view, const TypicalBatch& batch) {
  fill_offsets(view, batch.text_tokens);
}
void fill_typical_image_offsets(const TensorView& view, const TypicalBatch&) { fill_offsets(view, kImageTokens); }

}  // namespace

const Column kPatches{"patches", fill_typical_floats};
const Column kPatchPositions{"positions", fill_typical_patch_positions};
const Column kTimestepEmbedding{"timestep_embedding", fill_typical_floats};
const Column kText{"text", fill_typical_floats};
const Column kTextOffsets{"text_offsets", fill_typical_text_offsets};
const Column kImage{"image", fill_typical_floats};
const Column kImageOffsets{"image_offsets", fill_typical_image_offsets};

}  // namespace spillway

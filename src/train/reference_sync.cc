#include "train/reference_sync.h"

#include <cstring>
#include <vector>

#include "io/convert.h"

namespace spillway::train {
namespace {

std::vector<float> read_f32(ValueStore& store, ValueId value, int64_t elems) {
  std::vector<float> content(static_cast<size_t>(elems));
  store.read(value, [&](const TensorView& piece, int64_t first) {
    convert_floats(piece.data, piece.dtype, content.data() + first, DType::kF32, piece.elems());
  });
  return content;
}

}  // namespace

void sync_reference(const TrainingGraph& training, double alpha, ValueStore& store) {
  const auto share = static_cast<float>(alpha);
  for (const Parameter& copy : training.objective.copies) {
    const Parameter* policy = training.model.parameters.find(copy.name);
    std::vector<float> mixed = read_f32(store, copy.value(), copy.shape.elems());
    store.read(policy->value(), [&](const TensorView& piece, int64_t first) {
      std::vector<float> weights(static_cast<size_t>(piece.elems()));
      convert_floats(piece.data, piece.dtype, weights.data(), DType::kF32, piece.elems());
      for (size_t i = 0; i < weights.size(); ++i) {
        float& mix = mixed[static_cast<size_t>(first) + i];
        mix = mix * (1 - share) + share * weights[i];
      }
    });
    store.write(copy.value(), [&](const TensorView& piece, int64_t first) {
      convert_floats(mixed.data() + first, DType::kF32, piece.data, piece.dtype, piece.elems());
    });
  }
}

}  // namespace spillway::train

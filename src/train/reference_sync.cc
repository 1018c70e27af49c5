#include "train/reference_sync.h"

#include <algorithm>
#include <vector>

#include "base/sizes.h"
#include "io/convert.h"
#include "job/state_tensors.h"

namespace spillway::train {
namespace {

// The content of a copy, whose elements can be mixed with the policy's in any order.
class MixedCopy {
 public:
  MixedCopy(const Parameter& copy, ValueStore& store)
      : dtype_(copy.dtype), bytes_(make_vector<std::byte>(copy.shape.elems() * size_of(copy.dtype))) {
    store.read(copy.value(), [&](const TensorView& piece, int64_t first) {
      std::copy_n(piece.as<std::byte>(), piece.bytes(), at(first));
    });
  }

  void mix(const TensorView& policy, int64_t first_elem, float share) {
    for_each_f32(policy, first_elem, [&](std::span<const float> weights, int64_t first) {
      const int64_t count = std::ssize(weights);
      resize(mixed_, count);
      convert_floats(at(first), dtype_, mixed_.data(), DType::kF32, count);
      for (size_t i = 0; i < weights.size(); ++i) mixed_[i] = mixed_[i] * (1 - share) + share * weights[i];
      convert_floats(mixed_.data(), DType::kF32, at(first), dtype_, count);
    });
  }

  void write(const Parameter& copy, ValueStore& store) {
    store.write(copy.value(), [&](const TensorView& piece, int64_t first) {
      std::copy_n(at(first), piece.bytes(), piece.as<std::byte>());
    });
  }

 private:
  std::byte* at(int64_t elem) { return bytes_.data() + elem * size_of(dtype_); }

  DType dtype_;
  std::vector<std::byte> bytes_;
  std::vector<float> mixed_;  // some elements
};

}  // namespace

void sync_reference(const TrainingGraph& training, double alpha, ValueStore& store) {
  for (const TrainedWeight& t : training.trained_of_model()) {
    const Parameter* copy = training.objective.copies.find(training.parameter_of(t).name);
    if (copy == nullptr) continue;
    MixedCopy mixed(*copy, store);
    read_exact(training, t, store,
               [&](const TensorView& piece, int64_t first) { mixed.mix(piece, first, static_cast<float>(alpha)); });
    mixed.write(*copy, store);
  }
}

}  // namespace spillway::train

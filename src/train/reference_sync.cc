#include "train/reference_sync.h"

#include <algorithm>
#include <vector>

#include "base/sizes.h"
#include "io/convert.h"
#include "train/state.h"

namespace spillway::train {
namespace {

// A copy's content, of which any run of elements can be mixed with numbers of the policy.
class MixedCopy {
 public:
  MixedCopy(const Parameter& copy, ValueStore& store)
      : dtype_(copy.dtype), bytes_(make_vector<std::byte>(copy.shape.elems() * size_of(copy.dtype))) {
    store.read(copy.value(), [&](const TensorView& piece, int64_t first) {
      std::copy_n(piece.as<std::byte>(), piece.bytes(), at(first));
    });
  }

  void mix(const TensorView& policy, int64_t first, float share) {
    for (int64_t done = 0; done < policy.elems(); done += kScratch) {
      const int64_t count = std::min(kScratch, policy.elems() - done);
      const std::byte* const from = policy.as<std::byte>() + done * size_of(policy.dtype);
      convert_floats(from, policy.dtype, weights_.data(), DType::kF32, count);
      convert_floats(at(first + done), dtype_, mixed_.data(), DType::kF32, count);
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) mixed_[i] = mixed_[i] * (1 - share) + share * weights_[i];
      convert_floats(mixed_.data(), DType::kF32, at(first + done), dtype_, count);
    }
  }

  void write(const Parameter& copy, ValueStore& store) {
    store.write(copy.value(), [&](const TensorView& piece, int64_t first) {
      std::copy_n(at(first), piece.bytes(), piece.as<std::byte>());
    });
  }

 private:
  static constexpr int64_t kScratch = int64_t{1} << 14;

  std::byte* at(int64_t elem) { return bytes_.data() + elem * size_of(dtype_); }

  DType dtype_;
  std::vector<std::byte> bytes_;
  std::vector<float> weights_ = std::vector<float>(kScratch), mixed_ = std::vector<float>(kScratch);
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

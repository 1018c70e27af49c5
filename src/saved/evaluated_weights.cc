#include "saved/evaluated_weights.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/sizes.h"
#include "io/convert.h"

namespace spillway::train {
namespace {

// Returns the value that has the rows of a slice as training has them, to the last bit.
ValueId exact_rows(const StateSlice& slice) { return slice.master != kNone ? slice.master : slice.kept_aside; }

// Copies a weight without a master to the values that keep it aside.
void keep_trained(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store) {
  if (t.slices.front().kept_aside == kNone) return;
  auto slice = t.slices.begin();
  std::unique_ptr<ValueStore::Writer> writer;
  int64_t left = 0;  // elements of the slice
  store.read(t.weight, [&](const TensorView& piece, int64_t) {
    for (int64_t done = 0; done < piece.elems();) {
      if (left == 0) {
        writer = store.writer(slice->kept_aside);
        left = training.graph.value((slice++)->kept_aside).type.shape.elems();
      }
      const int64_t count = std::min(left, piece.elems() - done);
      writer->append(piece.as<std::byte>() + done * size_of(piece.dtype), count);
      done += count;
      left -= count;
    }
  });
}

std::vector<float> numbers_of(const TrainingGraph& training, ValueId state, ValueStore& store) {
  auto numbers = make_vector<float>(training.graph.value(state).type.shape.elems());
  store.read(state, [&](const TensorView& piece, int64_t first) {
    convert_floats(piece.data, piece.dtype, numbers.data() + first, DType::kF32, piece.elems());
  });
  return numbers;
}

// Rounds values to the dtype of a weight and appends them.
class RoundingWriter {
 public:
  RoundingWriter(const TrainingGraph& training, ValueId weight, ValueStore& store)
      : dtype_(training.graph.value(weight).type.dtype), writer_(store.writer(weight)) {}

  void append(const TensorView& piece) {
    for_each_rounded(piece, 0, dtype_,
                     [this](const TensorView& rounded, int64_t) { writer_->append(rounded.data, rounded.elems()); });
  }

 private:
  DType dtype_;
  std::unique_ptr<ValueStore::Writer> writer_;
};

// As read_evaluated(), for a weight that is kept aside already.
void read_from_kept(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                    const ValueStore::Visitor& use) {
  const ops::EvaluatedWeights& evaluated = *training.optimizer->evaluated;
  int64_t slice_begin = 0;
  for (const StateSlice& slice : t.slices) {
    const std::vector<float> state = numbers_of(training, slice.states[evaluated.state], store);
    store.read(exact_rows(slice), [&](const TensorView& piece, int64_t first) {
      for_each_f32(piece, first, [&](std::span<float> weight, int64_t first_elem) {
        const int64_t count = std::ssize(weight);
        evaluated.from_trained(weight, subspan_of(state, first_elem, count), training.optimizer_options);
        use({weight.data(), DType::kF32, {count}}, slice_begin + first_elem);
      });
    });
    slice_begin += std::ssize(state);
  }
}

}  // namespace

void read_evaluated(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                    const ValueStore::Visitor& use) {
  keep_trained(training, t, store);
  read_from_kept(training, t, store, use);
}

void put_evaluated_weights(const TrainingGraph& training, ValueStore& store) {
  if (!training.optimizer->evaluated) return;
  for (const TrainedWeight& t : training.trained) {
    keep_trained(training, t, store);
    RoundingWriter writer(training, t.weight, store);
    read_from_kept(training, t, store, [&](const TensorView& piece, int64_t) { writer.append(piece); });
  }
}

void put_trained_weights(const TrainingGraph& training, ValueStore& store) {
  if (!training.optimizer->evaluated) return;
  for (const TrainedWeight& t : training.trained) {
    RoundingWriter writer(training, t.weight, store);
    for (const StateSlice& slice : t.slices)
      store.read(exact_rows(slice), [&](const TensorView& piece, int64_t) { writer.append(piece); });
  }
}

}  // namespace spillway::train

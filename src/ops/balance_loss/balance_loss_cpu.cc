#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/parallel.h"
#include "ops/balance_loss/operands.h"
#include "ops/column_sums.h"
#include "ops/route/route.h"
#include "ops/simd.h"

namespace spillway::ops {
namespace {

// The softmax of a row of logits.
class RowSoftmax {
 public:
  RowSoftmax(const float* logits, int64_t experts) : size_(static_cast<size_t>(experts)) {
    const float largest = *std::max_element(logits, logits + experts);
    float sum = 0;
    for (size_t e = 0; e < size_; ++e) sum += row_[e] = std::exp(logits[e] - largest);
    for (size_t e = 0; e < size_; ++e) row_[e] /= sum;
  }
  [[nodiscard]] float operator[](int64_t expert) const { return row_[static_cast<size_t>(expert)]; }

 private:
  std::array<float, kMaxExperts> row_;
  size_t size_;
};

// Returns E over the square of the number of rows, 0 for none.
double factor_of(const KernelArgs& args, int64_t experts) {
  const balance_loss_op::Load load(args.inputs[balance_loss_op::kLoad]);
  double pairs = 0;
  for (int64_t e = 0; e < experts; ++e) pairs += double{load.pairs[e]};
  const double rows = pairs / static_cast<double>(args.attributes.integer("top_k"));
  return rows == 0 ? 0 : static_cast<double>(experts) / (rows * rows);
}

}  // namespace

void router_load_cpu(const KernelArgs& args) {
  const TensorView& logits = args.inputs[balance_loss_op::kLogits];
  const int64_t rows = logits.shape[0], experts = logits.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  const SequenceRows sequences(args.inputs[balance_loss_op::kSeqOffsets]);
  const int64_t counted = balance_loss_op::rows_that_count(sequences, rows);
  auto* const partial = reinterpret_cast<float*>(args.workspace);
  args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      float* const sums = partial + block * experts;
      std::fill_n(sums, experts, 0.0f);
      for (int64_t row = block * block_rows; row < std::min(counted, (block + 1) * block_rows); ++row) {
        const RowSoftmax softmax(logits.as<float>() + row * experts, experts);
        for (int64_t e = 0; e < experts; ++e) sums[e] += softmax[e];
      }
    }
  });
  const auto* const offsets = args.inputs[balance_loss_op::kOffsets].as<int32_t>();
  const TensorView& order = args.inputs[balance_loss_op::kOrder];
  const balance_loss_op::Load load(args.outputs[0]);
  for (int64_t e = 0; e < experts; ++e) {
    const int32_t pairs = sequences.offsets == nullptr ? offsets[e + 1] - offsets[e]
                                                       : balance_loss_op::pairs_of_rows(order.as<int32_t>(), offsets, e,
                                                                                        counted, order.shape[1]);
    load.pairs[e] = static_cast<float>(pairs);
    load.probabilities[e] = 0;
    for (int64_t block = 0; block < blocks; ++block) load.probabilities[e] += partial[block * experts + e];
  }
}

void router_load_grad_cpu(const KernelArgs& args) {
  using namespace balance_loss_op;
  const TensorView& logits = args.inputs[kLogits];
  const int64_t experts = logits.shape[1];
  const float* const slopes = balance_loss_op::Load(args.inputs[kDLoad]).probabilities;
  const float* const addend = args.inputs[kAddend].as<float>();
  const int64_t counted = rows_that_count(SequenceRows(args.inputs[kGradSeqOffsets]), logits.shape[0]);
  args.threads->parallel_for(logits.shape[0], row_grain(8 * experts), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * experts;
      const RowSoftmax softmax(logits.as<float>() + first, experts);
      float mean = 0;
      for (int64_t e = 0; e < experts; ++e) mean += softmax[e] * slopes[e];
      for (int64_t e = 0; e < experts; ++e) {
        const float dlogit = row < counted ? softmax[e] * (slopes[e] - mean) : 0;
        args.outputs[0].as<float>()[first + e] = addend == nullptr ? dlogit : addend[first + e] + dlogit;
      }
    }
  });
}

void balance_loss_cpu(const KernelArgs& args) {
  const TensorView& view = args.inputs[balance_loss_op::kLoad];
  const balance_loss_op::Load load(view);
  double sum = 0;
  for (int64_t e = 0; e < view.shape[1]; ++e) sum += double{load.pairs[e]} * double{load.probabilities[e]};
  const double loss = factor_of(args, view.shape[1]) * sum;
  const double weight = double{*args.inputs[balance_loss_op::kWeight].as<float>()};
  *args.outputs[0].as<float>() = static_cast<float>(weight * loss);
  *args.outputs[1].as<float>() = static_cast<float>(loss);
}

void balance_loss_grad_cpu(const KernelArgs& args) {
  const int64_t experts = args.outputs[0].shape[1];
  const double weight = double{*args.inputs[balance_loss_op::kWeight].as<float>()};
  const double factor = weight * factor_of(args, experts);
  const balance_loss_op::Load load(args.inputs[balance_loss_op::kLoad]), dload(args.outputs[0]);
  for (int64_t e = 0; e < experts; ++e) {
    dload.pairs[e] = 0;
    dload.probabilities[e] = static_cast<float>(factor * double{load.pairs[e]});
  }
}

void largest_load_cpu(const KernelArgs& args) {
  const balance_loss_op::ExpertPairs use(args.inputs[balance_loss_op::kUse]);
  int32_t most = 0;
  for (int64_t e = 0; e < use.experts; ++e) most = std::max(most, use.of(e));
  const auto pairs = static_cast<float>(use.of_all());
  const float load = pairs == 0 ? 0 : static_cast<float>(most) * static_cast<float>(use.experts) / pairs;
  const auto* const before = args.inputs[balance_loss_op::kBefore].as<float>();
  *args.outputs[0].as<float>() = before == nullptr ? load : std::max(*before, load);
}

void reached_experts_cpu(const KernelArgs& args) {
  const balance_loss_op::ExpertPairs use(args.inputs[balance_loss_op::kUse]);
  const auto* const before = args.inputs[balance_loss_op::kBefore].as<int32_t>();
  int32_t reached = before == nullptr ? 0 : *before;
  for (int64_t e = 0; e < use.experts; ++e) reached += use.of(e) > 0 ? 1 : 0;
  *args.outputs[0].as<int32_t>() = reached;
}

}  // namespace spillway::ops

#include "model/column.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/random.h"

namespace spillway {
namespace {

template <typename Element>
void fill(const TensorView& view, const Element& element) {
  for (int64_t i = 0; i < view.elems(); ++i) view.as<int32_t>()[i] = static_cast<int32_t>(element(i));
}

void fill_typical_positions(const TensorView& view, const TypicalBatch& batch) {
  fill(view, [&](int64_t i) { return i % batch.sequence_len; });
}

void fill_typical_offsets(const TensorView& view, const TypicalBatch& batch) {
  fill(view, [&](int64_t i) {
    return i + 1 == view.elems() ? batch.tokens : std::min(i * batch.sequence_len, batch.tokens);
  });
}

}  // namespace

const Column kIds{"ids", fill_typical_ids};
const Column kPositions{"positions", fill_typical_positions};
const Column kSeqOffsets{"seq_offsets", fill_typical_offsets};
const Column kOwnOffsets{"own_offsets", fill_typical_offsets};
const Column kOwnBorders{"own_borders", fill_typical_offsets};

void fill_typical_ids(const TensorView& view, const TypicalBatch& batch) {
  RandomStream random(1, 0);
  fill(view, [&](int64_t) { return random.below(static_cast<uint32_t>(batch.vocab_size)); });
}

ValueId add_column(Builder& builder, const Column& column, const ValueType& type, std::vector<BatchColumn>& columns,
                   int stream) {
  const std::string prefix = stream == 0 ? "batch" : fmt::format("batch.{}", stream);
  const ValueId value = builder.input(fmt::format("{}.{}", prefix, column.name), type, ValueKind::kBatch);
  columns.push_back({column, stream, value});
  return value;
}

}  // namespace spillway

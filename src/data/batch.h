// Rows as flat token streams: DESIGN's one batch form. Packed and plain batches differ only in how a stream is filled;
// none holds padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/rows/row.h"

namespace spillway::data {

struct MicroBatch {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;       // what each token predicts: the label of the next token of its sequence, else -100
  std::vector<int32_t> positions;    // from 0 in each sequence
  std::vector<int32_t> seq_offsets;  // where each sequence begins, and the length at the end
  int64_t targets = 0;               // labels that are not -100
};

// Puts the rows side by side, in their order, over what the micro-batch held; allocates only to grow.
void fill_micro_batch(MicroBatch& batch, std::span<const Row> rows, std::span<const int64_t> indices);

// The tokens of a row that have a target: its labels but the first.
[[nodiscard]] int64_t count_targets(const Row& row);

struct BatchOptions {
  int64_t rows = 1;            // micro_batch_size: rows a micro-batch, or bins with packing
  int64_t sequence_len = 512;  // a row is no longer; the capacity of a bin
  bool packing = false;        // fill each bin with several rows
  bool shuffle = true;         // each epoch in another order; false: file order
  uint64_t seed = 42;
};

// Which rows go into which micro-batch of an epoch: a pure function of lengths, options and epoch, so that resuming
// needs nothing but a position. Packing is first fit with the longest rows first, so that every epoch has equally many
// micro-batches; without shuffling, bins and the rows in them come in file order.
[[nodiscard]] std::vector<std::vector<int64_t>> plan_epoch(std::span<const Row> rows, const BatchOptions& options,
                                                           int64_t epoch);

// Splits off what validates: `share` below 1 is a share of the rows, else their number. Which ones depends on the seed
// alone. Returns the validation rows and leaves the others, in their order. Throws InputError where nothing would
// remain.
[[nodiscard]] std::vector<Row> split_validation(std::vector<Row>& rows, double share, uint64_t seed);

}  // namespace spillway::data

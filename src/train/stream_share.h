// The part that a rank has of a micro-batch where neighbouring ranks share each (context_parallel_size): rows of its
// streams, and addends of its loss.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dist/peers.h"
#include "graph/graph.h"
#include "infer/batch.h"
#include "model/column.h"
#include "tensor/view.h"

namespace spillway::train {

// Not thread-safe. Where ranks share nothing it does what one rank does. Otherwise agree() and add_up() are collective:
// every rank of the job calls them in the same order, while no program runs.
class StreamShare {
 public:
  // `ranks` neighbours share each micro-batch; a divisor of the number of peers, which are null for one rank. Borrowed.
  StreamShare(Peers* peers, int64_t ranks) : peers_(peers), ranks_(ranks) {}

  static constexpr size_t kMaxStreams = 2;
  using Lengths = std::array<int64_t, kMaxStreams>;  // tokens, by stream

  // Prepares for micro-batches whose longest streams have so many tokens. Ranks exchange as many rows as each other, so
  // that all have the rows of the longest of any.
  void agree(const Lengths& tokens);
  // Returns the rows of a stream of so many tokens that this rank computes: those behind the last token belong to no
  // sequence.
  [[nodiscard]] int64_t rows(int stream, int64_t tokens) const;
  // Fills a column's value with its content, or the rows of it that are this rank's. Rows behind the last token repeat
  // that one, which has no label. REQUIRES: agree() was called for the batch.
  void fill(const Value& value, const BatchColumn& column, const infer::Batch& batch, const TensorView& to) const;
  // Replaces numbers of this rank by their sums over the ranks that share a micro-batch, in order of rank. REQUIRES:
  // these have as many numbers.
  void add_up(std::vector<double>& numbers);
  void add_up(std::vector<std::vector<double>>& lists);

 private:
  [[nodiscard]] bool is_shared() const { return ranks_ > 1; }
  [[nodiscard]] int64_t place() const { return peers_->rank() % ranks_; }  // of this rank among those that share

  Peers* peers_;
  int64_t ranks_;
  Lengths rows_{};  // of this rank
};

}  // namespace spillway::train

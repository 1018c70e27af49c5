// One operation of a graph on the rows that it is measured on: all of them, or as many as time and memory allow.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device.h"
#include "graph/graph.h"

namespace spillway {

struct SampleLimits {
  double seconds = 0;        // the time that it may take
  int64_t bytes = 0;         // of its operands and its workspace
  int64_t sequence_len = 0;  // streams are cut at multiples of it where they can
};

class OperationSample {
 public:
  // Starts with all rows, run by `threads` threads on a device of that kind. Borrows the graph.
  OperationSample(const Graph& graph, OpId op, int threads, DeviceKind kind);

  // Leaves rows out until the limits hold; `seconds` is the expected time of the whole operation. False if they cannot
  // hold.
  [[nodiscard]] bool fit(double seconds, const SampleLimits& limits);
  // Takes the next shorter stream; returns false if there are few tokens already. REQUIRES: has_tokens().
  [[nodiscard]] bool cut(int64_t sequence_len);

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const Operation& operation() const { return graph_->op(op_); }
  [[nodiscard]] const Value& value(ValueId id) const { return graph_->value(id); }
  // Returns the tokens of the stream.
  [[nodiscard]] int64_t tokens() const { return tokens_; }
  [[nodiscard]] bool has_tokens() const;
  // Returns the factor from the time that this takes to that of the whole operation.
  [[nodiscard]] double scale() const { return scale_; }

  // Returns, by output, the input whose place it takes, or kNone: as in plans wherever no operation reads those inputs
  // afterwards.
  [[nodiscard]] const std::vector<int32_t>& places_taken() const { return places_taken_; }
  [[nodiscard]] Shape shape_of(ValueId id) const;
  // Returns the bytes, rounded up to whole pages.
  [[nodiscard]] int64_t bytes_of(ValueId id) const;
  // Return the bytes of operands that are only read, of results with those whose places they take, and of the
  // workspace.
  [[nodiscard]] int64_t constant_bytes() const { return constant_bytes_; }
  [[nodiscard]] int64_t result_bytes() const { return result_bytes_; }
  [[nodiscard]] int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  [[nodiscard]] bool is_elementwise() const;
  [[nodiscard]] int64_t largest_rows() const;
  void count_bytes();
  [[nodiscard]] int64_t bytes() const { return constant_bytes_ + result_bytes_ + workspace_bytes_; }

  const Graph* graph_;
  OpId op_;
  int64_t tokens_;
  int64_t rows_ = -1;  // of all operands, for operations without tokens that are cut; -1: they are whole
  double scale_ = 1;
  std::vector<int32_t> places_taken_;
  int64_t constant_bytes_ = 0, result_bytes_ = 0, workspace_bytes_;
};

}  // namespace spillway

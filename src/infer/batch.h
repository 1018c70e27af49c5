// Batches as a graph's batch values take them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "data/batch.h"
#include "graph/graph.h"
#include "tensor/view.h"

namespace spillway::infer {

// One stream of a micro-batch: the content of each column, by the names of model and objective. The content of a value
// without an axis may be shorter than the value; its last element then stands for the missing ones.
struct Batch {
  static constexpr size_t kMaxColumns = 16;
  struct Content {
    std::string_view name;
    std::span<const std::byte> bytes;
  };
  int64_t tokens = 0;  // rows of the stream, <= T
  int64_t rows = 0;    // of the data
  std::array<Content, kMaxColumns> columns{};

  // Returns the content of a column. REQUIRES: there is one of that name.
  [[nodiscard]] std::span<const std::byte> content(std::string_view name) const;
};
// Returns a view of the rows.
[[nodiscard]] Batch batch_of(const data::MicroBatch& rows);
// Copies a column's content to its value. Fills the rest of the value with the last element.
void copy_column(const Value& value, std::span<const std::byte> content, const TensorView& to);
// Fills a column's value for a micro-batch without rows: what follows no axis is zero, so that all its sequences are
// empty.
void clear_column(const Value& value, const TensorView& to);

}  // namespace spillway::infer

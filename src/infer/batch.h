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

// One stream of a micro-batch: the content of each column, as model and objective name them. Of a value that follows no
// axis there may be less than it has room for; then the last element stands for the others.
struct Batch {
  static constexpr size_t kMaxColumns = 16;
  struct Content {
    std::string_view name;
    std::span<const std::byte> bytes;
  };
  int64_t tokens = 0;  // rows of the stream, <= T
  int64_t rows = 0;    // of the data
  std::array<Content, kMaxColumns> columns{};

  // REQUIRES: there is one of that name.
  [[nodiscard]] std::span<const std::byte> content(std::string_view name) const;
};
// Borrows the rows.
[[nodiscard]] Batch batch_of(const data::MicroBatch& rows);
// Writes a column's content to its value; what that has beyond it gets the last element.
void copy_column(const Value& value, std::span<const std::byte> content, const TensorView& to);

}  // namespace spillway::infer

// Many tokenised rows in one run of tokens, in memory or in mapped files, and pieces of that run, from which packing
// and batches are made without copying a token.
//
//   RowTable table(rows);
//   const RowTable validation = table.select({3, 1});   // shares the tokens
//   for (const int32_t id : table.ids(validation.row(0))) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "base/sizes.h"
#include "data/rows/row.h"

namespace spillway::data {

// Tokens [begin, begin + length) of a run.
struct Piece {
  int64_t begin = 0;
  int32_t length = 0;
  bool continues = false;  // the sequence of the piece before goes on here; else a sequence begins

  bool operator==(const Piece&) const = default;
};

// Receives rows as they are made. Not thread-safe.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual void add(const Row& row) = 0;
};

// The run of tokens. Subclasses own the memory that the spans view.
class RowTokens {
 public:
  explicit RowTokens(RowSchema said) : schema(said), columns(said.size()) {}
  virtual ~RowTokens() = default;
  RowSchema schema;  // outlives the run
  std::span<const int32_t> ids;
  std::vector<std::span<const int32_t>> columns;  // as the schema says: [tokens] or [rows]
  std::span<const int64_t> offsets;               // [rows + 1]
  int32_t largest_id = -1;                        // of ids and labels

  // Checksums of the bytes of ids, of each column, and of offsets.
  using Checksums = std::vector<std::string>;
  [[nodiscard]] virtual Checksums checksums() const;
};

// Returns the numbers of each column of a row, in the order of the schema. REQUIRES: the row has the columns of the
// schema.
[[nodiscard]] std::vector<std::span<const int32_t>> columns_of(const Row& row, RowSchema schema);

class MemoryRows final : public RowTokens, public RowSink {
 public:
  explicit MemoryRows(RowSchema schema = kTextColumns);
  void add(const Row& row) override;

 private:
  std::vector<int32_t> ids_;
  std::vector<std::vector<int32_t>> columns_;
  std::vector<int64_t> offsets_;
};

// Immutable; any thread may use it. Copies share the tokens.
class RowTable {
 public:
  RowTable();  // without rows
  explicit RowTable(std::shared_ptr<const RowTokens> tokens) : tokens_(std::move(tokens)) {}
  explicit RowTable(std::span<const Row> rows, RowSchema schema = kTextColumns);

  [[nodiscard]] int64_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] Piece row(int64_t index) const;
  [[nodiscard]] int32_t length(int64_t index) const { return row(index).length; }
  [[nodiscard]] std::span<const int32_t> ids(const Piece& piece) const { return part(tokens_->ids, piece); }
  [[nodiscard]] RowSchema schema() const { return tokens_->schema; }
  // Returns the labels of a piece. The first label of a row is as its type made it; a sequence that begins with it
  // ignores it. REQUIRES: the schema begins with labels.
  [[nodiscard]] std::span<const int32_t> labels(const Piece& piece) const {
    return part(tokens_->columns.front(), piece);
  }
  [[nodiscard]] bool has_labels() const { return !schema().empty() && schema().front().name == "labels"; }
  // Returns a row's number in a column per row. REQUIRES: the schema has the column.
  [[nodiscard]] int32_t value(std::string_view column, int64_t row) const;
  [[nodiscard]] int32_t value(std::string_view column, const Piece& row) const;
  // Returns the row's number among all rows that were read, selected or not.
  [[nodiscard]] int64_t number_of(const Piece& row) const;
  [[nodiscard]] int64_t all_rows() const { return std::ssize(tokens_->offsets) - 1; }
  // Returns the largest of all ids and labels, including those of rows that were not selected; -1 if there are none.
  [[nodiscard]] int32_t largest_id() const { return tokens_->largest_id; }
  // Returns a checksum of all that was read and of the selection. It is the same in every run over the same data,
  // wherever the tokens live.
  [[nodiscard]] std::string checksum() const;
  // Returns a table of these rows, in this order.
  [[nodiscard]] RowTable select(std::vector<int64_t> rows) const;

 private:
  [[nodiscard]] int32_t value_at(std::string_view column, size_t place) const;
  // Returns the index among all rows, selected or not.
  [[nodiscard]] size_t place_of(int64_t index) const {
    return static_cast<size_t>(selection_ ? nth(*selection_, index) : index);
  }
  static std::span<const int32_t> part(std::span<const int32_t> run, const Piece& piece) {
    return subspan_of(run, piece.begin, piece.length);
  }

  std::shared_ptr<const RowTokens> tokens_;
  std::optional<std::vector<int64_t>> selection_;  // none: all rows
};

}  // namespace spillway::data

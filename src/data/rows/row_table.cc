#include "data/rows/row_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "io/checksum.h"

namespace spillway::data {
namespace {

std::shared_ptr<const RowTokens> in_memory(std::span<const Row> rows, RowSchema schema) {
  auto tokens = std::make_shared<MemoryRows>(schema);
  for (const Row& row : rows) tokens->add(row);
  return tokens;
}

}  // namespace

RowTokens::Checksums RowTokens::checksums() const {
  Checksums sums = {checksum_text(std::as_bytes(ids))};
  for (const auto& column : columns) sums.push_back(checksum_text(std::as_bytes(column)));
  sums.push_back(checksum_text(std::as_bytes(offsets)));
  return sums;
}

std::vector<std::span<const int32_t>> columns_of(const Row& row, RowSchema schema) {
  std::vector<std::span<const int32_t>> columns;
  size_t value = 0;
  for (const RowColumn& column : schema) {
    if (column.axis == RowColumn::Axis::kToken) {
      SPILLWAY_CHECK(column.name == "labels", "a row has no column {}", column.name);
      columns.emplace_back(row.labels);
    } else {
      columns.push_back(std::span(row.values).subspan(value++, 1));
    }
  }
  return columns;
}

MemoryRows::MemoryRows(RowSchema row_schema) : RowTokens(row_schema), columns_(row_schema.size()), offsets_{0} {
  offsets = offsets_;
}

void MemoryRows::add(const Row& row) {
  ids_.insert(ids_.end(), row.input_ids.begin(), row.input_ids.end());
  const auto numbers = columns_of(row, schema);
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].insert(columns_[i].end(), numbers[i].begin(), numbers[i].end());
    columns[i] = columns_[i];
  }
  offsets_.push_back(std::ssize(ids_));
  largest_id = std::max(largest_id, row.largest_id());
  ids = ids_;
  offsets = offsets_;
}

RowTable::RowTable() : tokens_(in_memory({}, kTextColumns)) {}
RowTable::RowTable(std::span<const Row> rows, RowSchema schema) : tokens_(in_memory(rows, schema)) {}

int64_t RowTable::size() const { return selection_ ? std::ssize(*selection_) : std::ssize(tokens_->offsets) - 1; }

Piece RowTable::row(int64_t index) const {
  const size_t at = place_of(index);
  const int64_t begin = tokens_->offsets[at];
  return {.begin = begin, .length = narrow<int32_t>(tokens_->offsets[at + 1] - begin)};
}

int32_t RowTable::value(std::string_view column, int64_t row) const { return value_at(column, place_of(row)); }

int32_t RowTable::value(std::string_view column, const Piece& row) const {
  return value_at(column, static_cast<size_t>(number_of(row)));
}

int64_t RowTable::number_of(const Piece& row) const {
  const auto after = std::upper_bound(tokens_->offsets.begin(), tokens_->offsets.end(), row.begin);
  return after - tokens_->offsets.begin() - 1;
}

int32_t RowTable::value_at(std::string_view column, size_t place) const {
  const RowColumn wanted{column, RowColumn::Axis::kRow};
  const auto found = std::find(schema().begin(), schema().end(), wanted);
  SPILLWAY_CHECK(found != schema().end(), "the rows have no column {}", column);
  return nth(tokens_->columns, found - schema().begin())[place];
}

std::string RowTable::checksum() const {
  Checksum sum;
  for (const std::string& part : tokens_->checksums()) sum.add(std::as_bytes(std::span(part)));
  if (selection_) sum.add(std::as_bytes(std::span(*selection_)));
  return sum.text();
}

RowTable RowTable::select(std::vector<int64_t> rows) const {
  if (selection_) {
    for (int64_t& row : rows) row = nth(*selection_, row);
  }
  RowTable chosen(tokens_);
  chosen.selection_ = std::move(rows);
  return chosen;
}

}  // namespace spillway::data

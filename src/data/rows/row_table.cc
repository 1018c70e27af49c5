#include "data/rows/row_table.h"

#include <algorithm>

#include "base/math.h"
#include "io/checksum.h"

namespace spillway::data {
namespace {

std::shared_ptr<const RowTokens> in_memory(std::span<const Row> rows) {
  auto tokens = std::make_shared<MemoryRows>();
  for (const Row& row : rows) tokens->add(row);
  return tokens;
}

}  // namespace

RowTokens::Checksums RowTokens::checksums() const {
  return {checksum_text(std::as_bytes(ids)), checksum_text(std::as_bytes(labels)),
          checksum_text(std::as_bytes(offsets))};
}

MemoryRows::MemoryRows() : offsets_{0} { offsets = offsets_; }

void MemoryRows::add(const Row& row) {
  ids_.insert(ids_.end(), row.input_ids.begin(), row.input_ids.end());
  labels_.insert(labels_.end(), row.labels.begin(), row.labels.end());
  offsets_.push_back(std::ssize(ids_));
  largest_id = std::max(largest_id, row.largest_id());
  ids = ids_;
  labels = labels_;
  offsets = offsets_;
}

RowTable::RowTable() : tokens_(in_memory({})) {}
RowTable::RowTable(std::span<const Row> rows) : tokens_(in_memory(rows)) {}

int64_t RowTable::size() const { return selection_ ? std::ssize(*selection_) : std::ssize(tokens_->offsets) - 1; }

Piece RowTable::row(int64_t index) const {
  const auto at = static_cast<size_t>(selection_ ? (*selection_)[static_cast<size_t>(index)] : index);
  const int64_t begin = tokens_->offsets[at];
  return {.begin = begin, .length = narrow<int32_t>(tokens_->offsets[at + 1] - begin)};
}

std::string RowTable::checksum() const {
  Checksum sum;
  for (const std::string& part : tokens_->checksums()) sum.add(std::as_bytes(std::span(part)));
  if (selection_) sum.add(std::as_bytes(std::span(*selection_)));
  return sum.text();
}

RowTable RowTable::select(std::vector<int64_t> rows) const {
  if (selection_) {
    for (int64_t& row : rows) row = (*selection_)[static_cast<size_t>(row)];
  }
  RowTable chosen(tokens_);
  chosen.selection_ = std::move(rows);
  return chosen;
}

}  // namespace spillway::data

#include "data/rows/row_collector.h"

#include <algorithm>

namespace spillway::data {

void RowCollector::RowHash::add(uint32_t value) {
  first = (first ^ value) * 0xFF51AFD7ED558CCD;
  first ^= first >> 32;
  second = (second + value) * 0xC4CEB9FE1A85EC53;
  second ^= second >> 29;
}

RowCollector::RowHash RowCollector::hash_of(const Row& row) {
  RowHash hash;
  for (const int32_t id : row.input_ids) hash.add(static_cast<uint32_t>(id));
  // The first label is no target: rows that differ in it alone are the same.
  for (size_t i = 1; i < row.labels.size(); ++i) hash.add(static_cast<uint32_t>(row.labels[i]));
  return hash;
}

void RowCollector::add(Row row, std::string_view where) {
  auto& dropped = summary_.dropped;
  switch (fit_row(row, rule_, where)) {
    case Fit::kEmpty:
      ++dropped.empty;
      return;
    case Fit::kTooShort:
      ++dropped.too_short;
      return;
    case Fit::kTooLong:
      ++dropped.too_long;
      return;
    case Fit::kNoTargets:
      ++dropped.no_targets;
      return;
    case Fit::kTruncated:
      row.is_cut = true;
      break;
    case Fit::kWhole:
      break;
  }
  if (deduplicates_ && !seen_.insert(hash_of(row)).second) {
    ++dropped.duplicate;
    return;
  }
  ++summary_.rows;
  summary_.truncated += row.is_cut ? 1 : 0;
  summary_.tokens += std::ssize(row.input_ids);
  sink_.add(row);
}

}  // namespace spillway::data

#include "train/stream_share.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "data/batch.h"
#include "train/rank_text.h"

namespace spillway::train {
namespace {

// Copies rows [first, first + rows) of a column of `tokens` rows. The last one stands for those behind it.
void copy_rows(std::span<const std::byte> content, int64_t tokens, int64_t first, int64_t rows, std::byte* to) {
  const int64_t row_bytes = std::ssize(content) / tokens;
  const int64_t begin = std::min(first, tokens), end = std::min(first + rows, tokens);
  to = std::copy_n(content.data() + begin * row_bytes, (end - begin) * row_bytes, to);
  for (int64_t row = end - begin; row < rows; ++row)
    to = std::copy_n(content.data() + (tokens - 1) * row_bytes, row_bytes, to);
}

// Returns the lists that every rank has sent. Throws MachineError if one had something else to say: it has failed.
std::vector<std::vector<double>> exchange_numbers(Peers& peers, const std::vector<double>& mine) {
  TextWriter text;
  text.add_list(mine);
  std::vector<std::vector<double>> all;
  const std::string own = text.take();
  constexpr size_t kCount = sizeof(size_t);  // of the list, with which it begins
  for (const std::string& message : peers.exchange(own)) {
    if (message.size() != own.size() || message.compare(0, kCount, own, 0, kCount) != 0)
      throw machine_error("ranks",
                          "expected the numbers of all ranks that share a sequence, got the end of one; see "
                          "what it said");
    all.push_back(TextReader(message).take_list<double>());
  }
  return all;
}

}  // namespace

void StreamShare::agree(std::span<const Lengths> tokens) {
  if (!is_shared()) return;
  std::vector<double> mine;
  for (const Lengths& streams : tokens)
    for (const int64_t length : streams) mine.push_back(static_cast<double>(rows_of_rank(length, ranks_)));
  rows_.assign(tokens.size(), {});
  for (const std::vector<double>& rows : exchange_numbers(*peers_, mine))
    for (size_t i = 0; i < rows.size(); ++i) {
      int64_t& most = rows_[i / kMaxStreams][i % kMaxStreams];
      most = std::max(most, static_cast<int64_t>(rows[i]));
    }
}

int64_t StreamShare::rows(size_t in_group, int stream, int64_t tokens) const {
  return is_shared() ? nth(rows_[in_group], stream) : tokens;
}

void StreamShare::fill(const Value& value, const BatchColumn& column, const infer::Batch& batch, size_t in_group,
                       AxisId tokens, const TensorView& to) const {
  const bool are_borders = column.column.name == kOwnBorders.name;
  const bool is_own = are_borders || column.column.name == kOwnOffsets.name;
  const std::span<const std::byte> content = batch.content(is_own ? kSeqOffsets.name : column.column.name);
  if (!is_shared() || value.type.axis != tokens) {
    infer::copy_column(value, content, to);
    if (!is_own) return;
    const auto rows = narrow<int32_t>(nth(rows_[in_group], column.stream));
    for (int32_t& offset : span_of(to.as<int32_t>(), to.elems())) {
      offset -= narrow<int32_t>(place()) * rows;
      if (are_borders) offset = std::clamp(offset, 0, rows);
    }
    return;
  }
  const int64_t rows = nth(rows_[in_group], column.stream);
  SPILLWAY_CHECK(batch.tokens > 0 && rows <= to.shape[0], "{} rows of {} tokens for {}", rows, batch.tokens,
                 value.name);
  const int64_t first = place() * rows;
  copy_rows(content, batch.tokens, first, rows, to.as<std::byte>());
  if (column.column.name != "labels") return;
  const int64_t own = std::clamp<int64_t>(batch.tokens - first, 0, rows);
  std::fill_n(to.as<int32_t>() + own, rows - own, data::kIgnoredLabel);
}

void StreamShare::add_up(const Lists& lists) {
  exchange(lists, [](std::vector<double>& sums, std::span<const double> of_rank) {
    sums.resize(of_rank.size(), 0);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
  });
}

void StreamShare::collect(const Lists& lists) {
  exchange(lists, [](std::vector<double>& all, std::span<const double> of_rank) {
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  });
}

// Empties the lists, and hands each to `take` with what each of the ranks that share a micro-batch had in it, in order
// of rank.
template <typename Take>
void StreamShare::exchange(const Lists& lists, const Take& take) {
  if (!is_shared() || lists.empty()) return;
  std::vector<double> mine;
  std::vector<size_t> sizes;
  for (std::vector<double>* const list : lists) {
    mine.insert(mine.end(), list->begin(), list->end());
    sizes.push_back(list->size());
    list->clear();
  }
  const std::vector<std::vector<double>> all = exchange_numbers(*peers_, mine);
  const int64_t first = peers_->rank() - place();
  for (int64_t rank = first; rank < first + ranks_; ++rank) {
    std::span<const double> left = nth(all, rank);
    for (size_t i = 0; i < lists.size(); ++i) {
      take(*lists[i], left.first(sizes[i]));
      left = left.subspan(sizes[i]);
    }
  }
}

}  // namespace spillway::train

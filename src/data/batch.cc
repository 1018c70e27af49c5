#include "data/batch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"

namespace spillway::data {
namespace {

// Streams of random numbers, so that shuffles of different purpose are independent.
constexpr uint64_t kEpochStream = 0x65706F63680000, kBinStream = 0x62696E73000000, kValidationStream = 0x76616C;

// Fisher and Yates.
template <typename T>
void shuffle(std::vector<T>& items, RandomStream random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(narrow<uint32_t>(i))]);
}

int64_t length(const Row& row) { return static_cast<int64_t>(row.input_ids.size()); }

// First fit: each row goes into the first bin that has room. A tree over the bins' free space finds it in log time.
class FirstFitBins {
 public:
  FirstFitBins(size_t most_bins, int64_t capacity) {
    while (leaves_ < most_bins) leaves_ *= 2;
    free_.assign(2 * leaves_, capacity);
    bins_.reserve(most_bins);
  }

  void add(int64_t row, int64_t tokens) {
    size_t node = 1;
    while (node < leaves_) node = free_[2 * node] >= tokens ? 2 * node : 2 * node + 1;
    const size_t bin = node - leaves_;
    if (bin >= bins_.size()) bins_.resize(bin + 1);
    bins_[bin].push_back(row);
    free_[node] -= tokens;
    for (node /= 2; node >= 1; node /= 2) free_[node] = std::max(free_[2 * node], free_[2 * node + 1]);
  }

  [[nodiscard]] std::vector<std::vector<int64_t>> take() { return std::move(bins_); }

 private:
  size_t leaves_ = 1;
  std::vector<int64_t> free_;  // a heap-shaped tree of maxima; the leaves are the bins
  std::vector<std::vector<int64_t>> bins_;
};

// Positions in `order`, the longest rows first, into bins; inside a bin they come in order.
std::vector<std::vector<int64_t>> pack(std::span<const Row> rows, std::span<const int64_t> order, int64_t capacity) {
  const auto length_at = [&](int64_t position) {
    return length(rows[static_cast<size_t>(order[static_cast<size_t>(position)])]);
  };
  std::vector<int64_t> positions(order.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(),
                   [&](int64_t a, int64_t b) { return length_at(a) > length_at(b); });
  FirstFitBins fit(positions.size(), capacity);
  for (const int64_t position : positions) fit.add(position, length_at(position));
  std::vector<std::vector<int64_t>> bins = fit.take();
  for (std::vector<int64_t>& bin : bins) std::sort(bin.begin(), bin.end());
  std::sort(bins.begin(), bins.end());
  return bins;
}

}  // namespace

void fill_micro_batch(MicroBatch& batch, std::span<const Row> rows, std::span<const int64_t> indices) {
  for (auto* list : {&batch.ids, &batch.labels, &batch.positions, &batch.seq_offsets}) list->clear();
  batch.targets = 0;
  for (const int64_t index : indices) {
    const Row& row = rows[static_cast<size_t>(index)];
    batch.seq_offsets.push_back(narrow<int32_t>(batch.ids.size()));
    for (size_t i = 0; i < row.input_ids.size(); ++i) {
      const int32_t label = i + 1 < row.labels.size() ? row.labels[i + 1] : kIgnoredLabel;
      batch.ids.push_back(row.input_ids[i]);
      batch.labels.push_back(label);
      batch.positions.push_back(narrow<int32_t>(i));
      batch.targets += label != kIgnoredLabel;
    }
  }
  batch.seq_offsets.push_back(narrow<int32_t>(batch.ids.size()));
}

int64_t count_targets(const Row& row) {
  return std::count_if(row.labels.begin() + std::min<std::ptrdiff_t>(1, std::ssize(row.labels)), row.labels.end(),
                       [](int32_t label) { return label != kIgnoredLabel; });
}

std::vector<std::vector<int64_t>> plan_epoch(std::span<const Row> rows, const BatchOptions& options, int64_t epoch) {
  std::vector<int64_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  if (options.shuffle) shuffle(order, RandomStream(options.seed, kEpochStream + static_cast<uint64_t>(epoch)));
  std::vector<std::vector<int64_t>> bins;
  if (options.packing) {
    bins = pack(rows, order, options.sequence_len);
    for (std::vector<int64_t>& bin : bins) {
      for (int64_t& position : bin) position = order[static_cast<size_t>(position)];
    }
    // Bins of many short rows have the earliest of them: without a shuffle they would all come first.
    if (options.shuffle) shuffle(bins, RandomStream(options.seed, kBinStream + static_cast<uint64_t>(epoch)));
  } else {
    for (const int64_t row : order) bins.push_back({row});
  }
  std::vector<std::vector<int64_t>> batches;
  for (size_t i = 0; i < bins.size(); ++i) {
    if (static_cast<int64_t>(i) % options.rows == 0) batches.emplace_back();
    batches.back().insert(batches.back().end(), bins[i].begin(), bins[i].end());
  }
  return batches;
}

std::vector<Row> split_validation(std::vector<Row>& rows, double share, uint64_t seed) {
  if (share <= 0) return {};
  const auto count =
      share < 1 ? static_cast<size_t>(std::ceil(share * static_cast<double>(rows.size()))) : static_cast<size_t>(share);
  if (count >= rows.size()) {
    throw input_error("val_set_size", "expected fewer than the {} rows there are, got {}; lower it", rows.size(),
                      count);
  }
  std::vector<int64_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, RandomStream(seed, kValidationStream));
  std::vector<bool> validates(rows.size(), false);
  for (size_t i = 0; i < count; ++i) validates[static_cast<size_t>(order[i])] = true;
  std::vector<Row> validation, training;
  for (size_t i = 0; i < rows.size(); ++i) (validates[i] ? validation : training).push_back(std::move(rows[i]));
  rows = std::move(training);
  return validation;
}

}  // namespace spillway::data

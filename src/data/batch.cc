#include "data/batch.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "data/shuffled.h"

namespace spillway::data {
namespace {

// Streams of random numbers, so that shuffles of different purpose are independent.
constexpr uint64_t kEpochStream = 0x65706F63680000, kBinStream = 0x62696E73000000, kValidationStream = 0x76616C,
                   kBeforePackingStream = 0x7061636B;

// Returns lines of one row each. Truncates rows that were kept whole for a packing strategy that splits them.
Lines one_row_a_line(const RowTable& rows, int64_t capacity) {
  Lines lines;
  reserve(lines.pieces, rows.size());
  reserve(lines.ends, rows.size());
  for (int64_t i = 0; i < rows.size(); ++i) {
    Piece row = rows.row(i);
    row.length = static_cast<int32_t>(std::min<int64_t>(row.length, capacity));
    lines.pieces.push_back(row);
    lines.end_line();
  }
  return lines;
}

// Groups by length as transformers does: stretches of up to 50 steps of the shuffled order, each sorted by length, the
// longest first; the longest row of all comes first, so that a lack of memory shows at once.
void group_by_length(std::vector<int64_t>& order, const Lines& lines, int64_t lines_per_step) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < lines.size(); ++i) lengths.push_back(count_tokens(lines.line(i)));
  const int64_t steps = std::clamp<int64_t>(std::ssize(order) / (lines_per_step * 4), 1, 50);
  const int64_t stretch = steps * lines_per_step;
  const auto length_of = [&](int64_t line) { return nth(lengths, line); };
  auto longest = order.begin();
  for (int64_t begin = 0; begin < std::ssize(order); begin += stretch) {
    const auto first = order.begin() + begin, last = order.begin() + std::min(std::ssize(order), begin + stretch);
    std::stable_sort(first, last, [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
    if (length_of(*first) > length_of(*longest)) longest = first;
  }
  if (!order.empty()) std::iter_swap(order.begin(), longest);
}

bool is_first_fit(const BatchOptions& options) { return options.packing == PackingStrategy::kFirstFit; }

// The lines before they are shuffled.
Lines make_lines(const RowTable& rows, const BatchOptions& options, int64_t epoch,
                 const std::function<void(int64_t, int64_t)>& progress) {
  if (!options.packing) return one_row_a_line(rows, options.sequence_len);
  const PackOptions pack_options{.strategy = *options.packing,
                                 .capacity = options.sequence_len,
                                 .scope_rows = options.packing_scope_rows,
                                 .line_rows = options.line_rows,
                                 .progress = progress};
  const auto epoch_stream = kEpochStream + static_cast<uint64_t>(epoch);
  if (is_first_fit(options) && options.order != RowOrder::kFile)
    return pack(rows.select(shuffled(rows.size(), options.seed, epoch_stream)), pack_options);
  if (options.shuffle_before_packing)
    return pack(rows.select(shuffled(rows.size(), options.packing_seed, kBeforePackingStream)), pack_options);
  return pack(rows, pack_options);
}

void put_in_order(EpochPlan& plan, const BatchOptions& options, int64_t epoch, int64_t lines_per_step) {
  if (options.order == RowOrder::kFile) return;
  // First fit orders lines by their earliest rows, which tends to put lines of many short rows first.
  const uint64_t stream = is_first_fit(options) ? kBinStream : kEpochStream;
  std::vector<int64_t> order = shuffled(plan.lines.size(), options.seed, stream + static_cast<uint64_t>(epoch));
  if (options.order == RowOrder::kGroupedByLength) group_by_length(order, plan.lines, lines_per_step);
  plan.lines = plan.lines.in_order(order);
}

template <typename T>
std::vector<T>& values_of(std::vector<MicroBatch::Named<T>>& columns, std::string_view name) {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const auto& one) { return one.name == name; });
  return found != columns.end() ? found->values : columns.emplace_back(MicroBatch::Named<T>{name, {}}).values;
}

}  // namespace

void MicroBatch::reserve(int64_t tokens) {
  for (auto* list : {&ids, &labels, &positions}) spillway::reserve(*list, tokens);
  spillway::reserve(seq_offsets, tokens + 1);
}

void MicroBatch::clear() {
  for (auto* list : {&ids, &labels, &positions, &seq_offsets}) list->clear();
  for (Numbers& one : numbers) one.values.clear();
  for (Indices& one : indices) one.values.clear();
  targets = rows = 0;
}

std::vector<float>& MicroBatch::column(std::string_view name) { return values_of(numbers, name); }

std::vector<int32_t>& MicroBatch::index_column(std::string_view name) { return values_of(indices, name); }

void fill_micro_batch(MicroBatch& batch, const RowTable& rows, std::span<const Piece> pieces) {
  batch.clear();
  add_to_micro_batch(batch, rows, pieces);
}

void add_to_micro_batch(MicroBatch& batch, const RowTable& rows, std::span<const Piece> pieces) {
  if (!batch.seq_offsets.empty()) batch.seq_offsets.pop_back();  // the end
  for (const Piece& piece : pieces) {
    const std::span<const int32_t> ids = rows.ids(piece), labels = rows.labels(piece);
    int32_t position = 0;
    if (piece.continues) {
      batch.labels.back() = labels.front();
      position = batch.positions.back() + 1;
    } else {
      batch.seq_offsets.push_back(narrow<int32_t>(batch.ids.size()));
    }
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.labels.insert(batch.labels.end(), labels.begin() + 1, labels.end());
    batch.labels.push_back(kIgnoredLabel);
    for (int32_t i = 0; i < piece.length; ++i) batch.positions.push_back(position + i);
  }
  batch.seq_offsets.push_back(narrow<int32_t>(batch.ids.size()));
  batch.targets = std::ssize(batch.labels) - std::count(batch.labels.begin(), batch.labels.end(), kIgnoredLabel);
}

void add_sequence(MicroBatch& stream, std::span<const int32_t> prompt, std::span<const int32_t> completion,
                  Learned learned, int64_t most) {
  if (stream.seq_offsets.empty()) stream.seq_offsets.push_back(0);
  const auto begin = std::ssize(stream.ids);
  const auto length = std::min(most, std::ssize(prompt) + std::ssize(completion));
  for (int64_t i = 0; i < length; ++i) {
    const bool in_prompt = i < std::ssize(prompt);
    const int32_t id = in_prompt ? nth(prompt, i) : nth(completion, i - std::ssize(prompt));
    const bool is_label = i > 0 && (!in_prompt || learned == Learned::kAll);
    if (i > 0) stream.labels.back() = is_label ? id : kIgnoredLabel;
    stream.targets += is_label;
    stream.ids.push_back(id);
    stream.labels.push_back(kIgnoredLabel);
    stream.positions.push_back(static_cast<int32_t>(i));
  }
  stream.seq_offsets.push_back(narrow<int32_t>(begin + length));
}

int64_t count_targets(const RowTable& rows, std::span<const Piece> pieces) {
  int64_t targets = 0;
  for (const Piece& piece : pieces) {
    const std::span<const int32_t> labels = rows.labels(piece).subspan(piece.continues ? 0 : 1);
    targets += std::ssize(labels) - std::count(labels.begin(), labels.end(), kIgnoredLabel);
  }
  return targets;
}

int64_t EpochPlan::micro_batches() const { return div_ceil(lines.size(), lines_per_batch); }

std::span<const Piece> EpochPlan::micro_batch(int64_t index) const {
  return lines.between(index * lines_per_batch, std::min(lines.size(), (index + 1) * lines_per_batch));
}

EpochPlan plan_epoch(const RowTable& rows, const BatchOptions& options, int64_t epoch,
                     const std::function<void(int64_t, int64_t)>& progress) {
  return plan_rest(rows, options, epoch, {.rows = options.rows, .step_batches = options.step_batches}, progress);
}

EpochPlan plan_rest(const RowTable& rows, const BatchOptions& options, int64_t epoch, const EpochRest& rest,
                    const std::function<void(int64_t, int64_t)>& progress) {
  EpochPlan plan{.lines = make_lines(rows, options, epoch, progress), .lines_per_batch = options.rows};
  put_in_order(plan, options, epoch, rest.rows * rest.step_batches);
  plan.lines.drop_first(rest.first_line);
  if (options.drops_last) plan.left_out = plan.lines.size() % options.rows;
  plan.lines.keep_first(plan.lines.size() - plan.left_out);
  return plan;
}

RowSplit split_validation(int64_t rows, double share, std::optional<uint64_t> seed) {
  const auto count =
      share < 1 ? static_cast<int64_t>(std::ceil(share * static_cast<double>(rows))) : static_cast<int64_t>(share);
  if (count >= rows && count > 0) {
    throw input_error("val_set_size", "expected fewer than the {} rows there are, got {}; lower it", rows, count);
  }
  auto validates = make_vector<bool>(rows, false);
  if (seed) {
    const std::vector<int64_t> order = shuffled(rows, *seed, kValidationStream);
    for (int64_t i = 0; i < count; ++i) nth(validates, nth(order, i)) = true;
  } else {
    std::fill(validates.end() - count, validates.end(), true);
  }
  RowSplit split;
  for (int64_t i = 0; i < rows; ++i) (nth(validates, i) ? split.validation : split.training).push_back(i);
  return split;
}

std::pair<RowTable, RowTable> split_validation(const RowTable& rows, double share, std::optional<uint64_t> seed) {
  if (share <= 0) return {rows, RowTable()};
  RowSplit split = split_validation(rows.size(), share, seed);
  return {rows.select(std::move(split.training)), rows.select(std::move(split.validation))};
}

}  // namespace spillway::data

#include "data/rows/row_collector.h"

#include <algorithm>
#include <span>

#include "data/rows/preference_rows.h"

namespace spillway::data {
namespace {

PreferenceRule rule_of_preferences(const RowOptions& options) {
  PreferenceRule rule = preference_rule(options);
  if (options.objective == Objective::kReward) {
    rule.length_rules = LengthRules::kAxolotl;
    if (rule.long_rows != LongRows::kRaise) rule.long_rows = LongRows::kDrop;
  }
  return rule;
}

}  // namespace

RowCollector::RowCollector(const RowOptions& options, RowSink& sink)
    : objective_(options.objective), deduplicates_(options.deduplicate), sink_(sink) {
  summary_.lengths = LengthTally(options.sequence_len);
  if (!has_completions(objective_)) {
    fit_ = [rule = length_rule(options)](Row& row, std::string_view where) { return fit_row(row, rule, where); };
    return;
  }
  fit_ = [rule = rule_of_preferences(options), objective = objective_](Row& row, std::string_view where) {
    PreferenceRow parts = preference_of(row, objective);
    const Fit fit = fit_preference(parts.prompt_ids, parts.completions, rule, where);
    if (fit == Fit::kTruncated) row = joined_row(parts, objective);
    return fit;
  };
}

void RowCollector::add_record(int64_t copy) {
  if (records_ > 0 && records_ % kMapBatchRows == 0) take_later();
  ++records_;
  ++summary_.rows_read;
  rows_of_record_ = 0;
  copy_ = copy;
}

void RowCollector::add(Row row, std::string_view where) {
  row.copy = copy_;
  if (objective_ == Objective::kUnpaired && rows_of_record_++ > 0) {
    later_.emplace_back(std::move(row), where);
  } else {
    take(std::move(row), where);
  }
}

void RowCollector::end_dataset() {
  take_later();
  records_ = 0;
  summary_.answers.push_back(std::exchange(answers_, {}));
}

void RowCollector::take_later() {
  for (auto& [row, where] : later_) take(std::move(row), where);
  later_.clear();
}

Hash128 RowCollector::hash_of(const Row& row) {
  hashed_.assign(row.input_ids.begin(), row.input_ids.end());
  // The first label is not a target: rows that differ only in it are equal.
  if (!row.labels.empty()) hashed_.insert(hashed_.end(), row.labels.begin() + 1, row.labels.end());
  hashed_.insert(hashed_.end(), row.values.begin(), row.values.end());
  hashed_.push_back(static_cast<int32_t>(row.copy));  // copies that a dataset's weight asks for are no duplicates
  return hash_128(std::as_bytes(std::span(hashed_)));
}

int64_t RowCollector::length_of(const Row& row) const {
  if (!has_completions(objective_)) return std::ssize(row.input_ids) + row.cut_tokens;
  const PreferenceRow parts = preference_of(row, objective_);
  int64_t longest = 0;
  for (const auto& ids : parts.completions) longest = std::max(longest, std::ssize(ids));
  return std::ssize(parts.prompt_ids) + longest;
}

void RowCollector::take(Row row, std::string_view where) {
  auto& dropped = summary_.dropped;
  const int64_t tokens = std::ssize(row.input_ids) + row.cut_tokens;
  summary_.lengths.add(length_of(row));
  switch (fit_(row, where)) {
    case Fit::kEmpty:
      ++dropped.empty;
      return;
    case Fit::kTooShort:
      ++dropped.too_short;
      return;
    case Fit::kTooLong:
      ++dropped.too_long;
      summary_.tokens_too_long += tokens;
      return;
    case Fit::kNoTargets:
      ++dropped.no_targets;
      return;
    case Fit::kTruncated:
    case Fit::kWhole:
      break;
  }
  if (deduplicates_ && !seen_.insert(hash_of(row)).second) {
    ++dropped.duplicate;
    return;
  }
  ++summary_.rows;
  const int64_t cut = tokens - std::ssize(row.input_ids);
  summary_.truncated += cut > 0 ? 1 : 0;
  summary_.tokens_cut += cut;
  summary_.tokens += std::ssize(row.input_ids);
  summary_.left_out.add(row.left_out);
  summary_.joined_prompts += row.joins_prompt ? 1 : 0;
  count_ends(row);
  sink_.add(row);
}

// Counts the ends of answers; a truncated row may have lost them.
void RowCollector::count_ends(const Row& row) {
  if (!row.ends.has_answer) return;
  ++answers_.rows;
  bool has_end = false;
  const auto look_in = [&](std::span<const int32_t> targets) {
    for (const int32_t id : row.ends.ids) {
      if (std::find(targets.begin(), targets.end(), id) == targets.end()) continue;
      has_end = true;
      summary_.ends.insert(id);
    }
  };
  if (has_completions(objective_)) {
    look_in(preference_of(row, objective_).completions.front());
  } else {
    look_in(row.labels);
  }
  answers_.with_end += has_end ? 1 : 0;
}

}  // namespace spillway::data

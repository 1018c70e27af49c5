#include "data/rows/truncation.h"

#include <algorithm>

#include "base/error.h"
#include "base/sizes.h"

namespace spillway::data {
namespace {

int64_t length_of(const std::vector<int32_t>& ids) { return std::ssize(ids); }

void keep_start(std::vector<int32_t>& ids, int64_t length) { resize(ids, length); }
void keep_end(std::vector<int32_t>& ids, int64_t length) { ids.erase(ids.begin(), ids.end() - length); }
void cut(std::vector<int32_t>& ids, int64_t length, TruncationMode mode) {
  if (mode == TruncationMode::kKeepEnd) {
    keep_end(ids, length);
  } else {
    keep_start(ids, length);
  }
}

[[noreturn]] void fail_too_long(std::string_view where, int64_t most, int64_t got) {
  throw input_error(where,
                    "expected a row of at most {} tokens, got {}; raise sequence_len (or max_length), or set "
                    "excess_length_strategy: drop or truncate",
                    most, got);
}

LongRows long_rows_of(const RowOptions& options) {
  const bool raises = options.excess_length_strategy == ExcessLength::kRaise;
  if (options.length_rules == LengthRules::kTrl && !raises) return LongRows::kTruncate;
  switch (options.excess_length_strategy) {
    case ExcessLength::kTruncate:
      return LongRows::kTruncate;
    case ExcessLength::kRaise:
      return LongRows::kRaise;
    case ExcessLength::kDrop:
      break;
  }
  return LongRows::kDrop;
}

using Completions = std::span<std::vector<int32_t>>;

int64_t longest_of(Completions completions) {
  int64_t most = 0;
  for (const std::vector<int32_t>& ids : completions) most = std::max(most, length_of(ids));
  return most;
}

// Truncates prompt and completions to their own limits; returns true if anything was cut.
bool limit_sides(std::vector<int32_t>& prompt, Completions completions, const PreferenceRule& rule) {
  bool truncated = false;
  if (rule.max_prompt_length > 0 && length_of(prompt) > rule.max_prompt_length) {
    keep_end(prompt, rule.max_prompt_length);
    truncated = true;
  }
  for (std::vector<int32_t>& ids : completions) {
    if (rule.max_completion_length <= 0 || length_of(ids) <= rule.max_completion_length) continue;
    keep_start(ids, rule.max_completion_length);
    truncated = true;
  }
  return truncated;
}

void keep_ends(std::vector<int32_t>& prompt, Completions completions, int64_t limit) {
  for (std::vector<int32_t>& ids : completions) keep_end(ids, std::min(length_of(ids), limit));
  keep_end(prompt, std::min(length_of(prompt), limit - longest_of(completions)));
}

}  // namespace

LengthRule length_rule(const RowOptions& options) {
  const bool trl = options.length_rules == LengthRules::kTrl;
  LengthRule rule{.sequence_len = options.sequence_len,
                  .min_sample_len = trl ? 1 : options.min_sample_len,
                  .long_rows = long_rows_of(options),
                  .truncation_mode = options.truncation_mode};
  if (!options.packing) return rule;
  rule.keep_without_targets = trl;
  if (options.packing == PackingStrategy::kBfd) rule.truncation_mode = TruncationMode::kKeepStart;
  if (splits_rows(*options.packing) && rule.long_rows != LongRows::kRaise) rule.long_rows = LongRows::kKeep;
  return rule;
}

Fit fit_row(Row& row, const LengthRule& rule, std::string_view where) {
  const int64_t length = length_of(row.input_ids);
  if (length == 0) return Fit::kEmpty;
  if (length < rule.min_sample_len) return Fit::kTooShort;
  const bool too_long = length > rule.sequence_len && rule.long_rows != LongRows::kKeep;
  if (too_long) {
    if (rule.long_rows == LongRows::kRaise) fail_too_long(where, rule.sequence_len, length);
    if (rule.long_rows == LongRows::kDrop) return Fit::kTooLong;
    cut(row.input_ids, rule.sequence_len, rule.truncation_mode);
    cut(row.labels, rule.sequence_len, rule.truncation_mode);
  }
  const bool has_targets =
      std::any_of(row.labels.begin() + 1, row.labels.end(), [](int32_t label) { return label != kIgnoredLabel; });
  if (!has_targets && !rule.keep_without_targets) return Fit::kNoTargets;
  return too_long ? Fit::kTruncated : Fit::kWhole;
}

PreferenceRule preference_rule(const RowOptions& options) {
  return {.sequence_len = options.sequence_len,
          .max_prompt_length = options.max_prompt_length,
          .max_completion_length = options.max_completion_length,
          .long_rows = long_rows_of(options),
          .length_rules = options.length_rules,
          .truncation_mode = options.truncation_mode};
}

Fit fit_preference(std::vector<int32_t>& prompt, std::span<std::vector<int32_t>> completions,
                   const PreferenceRule& rule, std::string_view where) {
  const bool limited = limit_sides(prompt, completions, rule);
  if (std::any_of(completions.begin(), completions.end(), [](const auto& ids) { return ids.empty(); }))
    return Fit::kNoTargets;
  const int64_t length = length_of(prompt) + longest_of(completions);
  if (length <= rule.sequence_len) return limited ? Fit::kTruncated : Fit::kWhole;
  if (rule.long_rows == LongRows::kRaise) fail_too_long(where, rule.sequence_len, length);
  if (rule.long_rows == LongRows::kDrop) return Fit::kTooLong;
  const bool trl = rule.length_rules == LengthRules::kTrl;
  if (trl && rule.truncation_mode == TruncationMode::kKeepEnd) {
    keep_ends(prompt, completions, rule.sequence_len);
    return Fit::kTruncated;
  }
  const int64_t room = rule.sequence_len - length_of(prompt);
  if (room <= 0) return trl ? Fit::kNoTargets : Fit::kTooLong;
  for (std::vector<int32_t>& ids : completions) keep_start(ids, std::min(length_of(ids), room));
  return Fit::kTruncated;
}

}  // namespace spillway::data

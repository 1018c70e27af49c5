// Length rules for rows: pure functions, without files or tokenizers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "data/rows/row.h"

namespace spillway::data {

// The outcome of a length rule for a row.
enum class Fit { kWhole, kTruncated, kEmpty, kTooShort, kTooLong, kNoTargets };

// The treatment of a row of more than `sequence_len` tokens.
enum class LongRows { kDrop, kTruncate, kRaise, kKeep };

struct LengthRule {
  int64_t sequence_len = 512;
  int64_t min_sample_len = 1;
  LongRows long_rows = LongRows::kDrop;
  TruncationMode truncation_mode = TruncationMode::kKeepStart;
  bool keep_without_targets = false;
};

// Returns axolotl's rule or TRL's, as the options say. TRL's packing cuts (bfd) or splits (bfd_split, wrapped) rows
// itself, and keeps rows without targets.
[[nodiscard]] LengthRule length_rule(const RowOptions& options);

// Applies the rule to a row and truncates it if necessary. The row is to be dropped unless the result is kWhole or
// kTruncated. The first label is not a target. Throws InputError at `where` under kRaise.
[[nodiscard]] Fit fit_row(Row& row, const LengthRule& rule, std::string_view where);

// The limits of preference rows: TRL's older max_prompt_length and max_completion_length (0: none) cut a prompt to its
// end and completions to their start; then the sum is cut to sequence_len.
struct PreferenceRule {
  int64_t sequence_len = 512;
  int64_t max_prompt_length = 0, max_completion_length = 0;
  LongRows long_rows = LongRows::kTruncate;
  LengthRules length_rules = LengthRules::kTrl;
  TruncationMode truncation_mode = TruncationMode::kKeepStart;
};

[[nodiscard]] PreferenceRule preference_rule(const RowOptions& options);

// Applies the rule to a prompt and its completions: two for a pair, one for an unpaired row. As in TRL, kKeepStart
// truncates the ends of the completions, and a row whose prompt fills sequence_len is dropped (kNoTargets). kKeepEnd
// truncates the prompt's start by as much as the longest completion needs, so that all completions follow the same
// prompt, and the start of a completion that is too long by itself. axolotl's rule drops or rejects rows in which the
// prompt and any completion are too long, or truncates the ends of completions and drops rows whose prompt leaves no
// room (kTooLong). Throws InputError at `where` under kRaise.
[[nodiscard]] Fit fit_preference(std::vector<int32_t>& prompt, std::span<std::vector<int32_t>> completions,
                                 const PreferenceRule& rule, std::string_view where);

}  // namespace spillway::data

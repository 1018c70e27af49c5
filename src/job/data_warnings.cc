#include "job/data_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/index.h"
#include "base/sizes.h"
#include "data/batch.h"

namespace spillway::train {
namespace {

constexpr double kMaxDropped = 0.1, kMaxTruncated = 0.1, kMaxTargets = 0.95;
constexpr int64_t kRowsLookedAt = 4096;

// Returns what to do about the reason for which most rows are dropped.
std::string remedy_of(const data::DatasetSummary::Dropped& dropped, const data::RowOptions& options) {
  const bool is_axolotls = options.length_rules == data::LengthRules::kAxolotl;
  const std::string_view length = is_axolotls ? "sequence_len" : "max_length";
  const int64_t most = std::max({dropped.empty, dropped.too_short, dropped.too_long, dropped.no_targets});
  if (most == dropped.too_long) {
    return fmt::format("{} are longer than {} tokens; raise {}{}", dropped.too_long, options.sequence_len, length,
                       is_axolotls ? ", or cut them with excess_length_strategy: truncate" : "");
  }
  if (most == dropped.no_targets && options.objective == data::Objective::kSteps && options.max_completion_length > 0)
    return fmt::format("{} have no token to learn; raise max_completion_length if the first step fills it",
                       dropped.no_targets);
  if (most == dropped.no_targets) {
    return fmt::format(
        "{} have no token to learn; raise {} if prompts fill it, and see that roles and fields are named "
        "as the rows name them",
        dropped.no_targets, length);
  }
  if (most == dropped.empty)
    return fmt::format("{} are empty; see that the fields are named as the rows name them", dropped.empty);
  return fmt::format("{} have fewer than {} tokens; lower min_sample_len", dropped.too_short, options.min_sample_len);
}

// Returns the limits of prompts and completions in the config: "max_prompt_length: 3 and max_completion_length: 2".
std::string limits_of_sides(const data::RowOptions& options) {
  std::string text;
  for (const auto& [key, tokens] : {std::pair{"max_prompt_length", options.max_prompt_length},
                                    {"max_completion_length", options.max_completion_length}}) {
    if (tokens > 0) text += fmt::format("{}{}: {}", text.empty() ? "" : " and ", key, tokens);
  }
  return text;
}

// Returns the warning about truncated rows: how many, what they lose, and how to avoid it.
std::string truncation_warning(const data::DatasetSummary& summary, const data::RowOptions& options) {
  const std::string_view length = options.length_rules == data::LengthRules::kAxolotl ? "sequence_len" : "max_length";
  const int64_t enough = summary.lengths.length_for(kMaxTruncated);
  // If hardly any row exceeds the row limit, the limit of prompts or of completions has truncated them. Rows of steps
  // are cut by these before they are measured.
  const bool is_in_limit = enough == 0 || options.objective == data::Objective::kSteps;
  if (const std::string sides = limits_of_sides(options); is_in_limit && !sides.empty()) {
    return fmt::format(
        "{} of {} rows are truncated by {}, which loses {} of {} tokens; raise these limits, or leave long rows out of "
        "the data",
        summary.truncated, summary.rows, sides, summary.tokens_cut, summary.tokens + summary.tokens_cut);
  }
  return fmt::format(
      "{} of {} rows are truncated to {} tokens, which loses {} of {} tokens; raise {}{}, or leave long rows out of "
      "the data",
      summary.truncated, summary.rows, options.sequence_len, summary.tokens_cut, summary.tokens + summary.tokens_cut,
      length, enough > 0 ? fmt::format(" ({} is enough for nine of ten rows)", enough) : "");
}

// Returns true if the rows of a data set have parts that the config does not train on. Data sets of plain text, and
// rows that mark their parts themselves, do not count.
bool masks_prompts(const data::DatasetConfig& dataset, const data::RowOptions& options) {
  if (options.train_on_inputs) return false;
  if (!dataset.type.given) return options.assistant_only_loss || options.completion_only_loss.value_or(false);
  if (dataset.type.is_user_defined()) return true;
  const auto& roles = dataset.roles_to_train;
  if (std::find(roles.begin(), roles.end(), "user") != roles.end() || !dataset.message_field_training.empty())
    return false;
  const std::string_view name = dataset.type.name;
  return !name.empty() && name != "completion" && name != "pretrain" && name != "input_output";
}

// Returns what to do if nearly all tokens are learned though prompts are masked.
std::string masking_remedy(const std::vector<data::DatasetConfig>& datasets, const data::RowOptions& options) {
  const bool are_trls = std::none_of(datasets.begin(), datasets.end(), [](const auto& one) { return one.type.given; });
  if (are_trls && !options.assistant_only_loss)
    return "completion_only_loss masks prompts in rows of prompt and completion; in conversations ('messages') "
           "assistant_only_loss: true does";
  return "see in the rows of `spillway preprocess` whether prompts are where the type looks for them "
         "(roles_to_train, field_*), or say train_on_inputs: true if this is meant";
}

double share_of_targets(const data::RowTable& rows) {
  const int64_t step = std::max<int64_t>(1, (rows.size() + kRowsLookedAt - 1) / kRowsLookedAt);
  int64_t tokens = 0, targets = 0;
  for (int64_t i = 0; i < rows.size(); i += step) {
    const data::Piece row = rows.row(i);
    if (row.length < 2) continue;
    tokens += row.length - 1;  // the first is nobody's target
    targets += count_targets(rows, std::span(&row, 1));
  }
  return tokens > 0 ? static_cast<double>(targets) / static_cast<double>(tokens) : 0;
}

bool leaves_ends_out(const data::DatasetConfig& dataset) {
  return dataset.train_on_eos == data::TrainOnEos::kNone &&
         dataset.train_on_eot.value_or(data::TrainOnEos::kNone) == data::TrainOnEos::kNone;
}

// Returns the advice for rows in which no answer's end is learned.
std::string ends_remedy(const std::vector<data::DatasetConfig>& datasets, const data::RowOptions& options,
                        const data::DatasetSummary& summary) {
  if (summary.truncated > 0 && summary.truncated == summary.rows)
    return fmt::format("all rows are cut; raise {}",
                       options.length_rules == data::LengthRules::kAxolotl ? "sequence_len" : "max_length");
  if (std::all_of(datasets.begin(), datasets.end(), leaves_ends_out)) return "remove train_on_eos: none";
  return "name the token that ends an answer in eot_tokens, or choose a chat_template that ends turns with one "
         "(chatml); in rows of text, write it behind the answer";
}

// Warns if a model does not learn to stop from the answers of all datasets, or of one of them: it then stops behind
// some answers alone.
void warn_of_ends(const std::vector<data::DatasetConfig>& datasets, const data::RowOptions& options,
                  const data::DatasetSummary& summary, std::vector<std::string>& warnings) {
  std::vector<data::DatasetConfig> without;
  std::string paths;
  int64_t rows = 0;
  bool others_have_ends = false;
  for (int64_t i = 0; i < std::min(std::ssize(datasets), std::ssize(summary.answers)); ++i) {
    const auto& answers = nth(summary.answers, i);
    others_have_ends |= answers.with_end > 0;
    if (answers.rows == 0 || answers.with_end > 0) continue;
    without.push_back(nth(datasets, i));
    paths += fmt::format("{}{}", paths.empty() ? "" : ", ", nth(datasets, i).path);
    rows += answers.rows;
  }
  if (without.empty()) return;
  warnings.push_back(
      fmt::format("datasets: the end of the answer is a target in none of {} rows{}, so that the model does not learn "
                  "to stop{}; {}",
                  rows, others_have_ends ? " of " + paths : "", others_have_ends ? " behind them" : "",
                  ends_remedy(without, options, summary)));
}

// Warns of preferences from which a model learns little: all prompts are empty but for a BOS, or answers are the same.
void warn_of_preferences(std::string_view key, data::Objective objective, const data::RowTable& rows,
                         std::vector<std::string>& warnings) {
  if (!data::has_completions(objective) || objective == data::Objective::kReward || rows.empty()) return;
  int64_t empty = 0, equal = 0;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const int32_t prompt = rows.value("prompt_tokens", i);
    empty += prompt <= 1 ? 1 : 0;
    if (objective == data::Objective::kUnpaired) continue;
    const std::span<const int32_t> ids = rows.ids(rows.row(i));
    const int64_t chosen = rows.value("chosen_tokens", i), rest = std::ssize(ids) - prompt - chosen;
    equal += std::ranges::equal(subspan_of(ids, prompt, chosen), subspan_of(ids, prompt + chosen, rest)) ? 1 : 0;
  }
  if (empty == rows.size())
    warnings.push_back(
        fmt::format("{}: the prompt is empty in all {} rows; name its column in field_prompt, or choose "
                    "a type that reads it",
                    key, rows.size()));
  if (equal > 0)
    warnings.push_back(
        fmt::format("{}: the chosen and the rejected answer are the same in {} of {} rows, from which "
                    "nothing is learned",
                    key, equal, rows.size()));
}

}  // namespace

std::vector<std::string> data_warnings(std::string_view key, const std::vector<data::DatasetConfig>& datasets,
                                       const data::RowOptions& options, const data::Dataset& read) {
  std::vector<std::string> warnings;
  const data::DatasetSummary& summary = read.summary;
  const int64_t dropped = summary.dropped_rows() - summary.dropped.duplicate;
  if (static_cast<double>(dropped) > kMaxDropped * static_cast<double>(dropped + summary.rows)) {
    warnings.push_back(fmt::format("{}: {} of {} rows are dropped: {}", key, dropped, dropped + summary.rows,
                                   remedy_of(summary.dropped, options)));
  }
  if (static_cast<double>(summary.truncated) > kMaxTruncated * static_cast<double>(summary.rows))
    warnings.push_back(fmt::format("{}: {}", key, truncation_warning(summary, options)));
  if (summary.left_out.any())
    warnings.push_back(fmt::format("{}: {}", key, data::left_out_warning(summary.left_out, summary.rows)));
  if (summary.joined_prompts > 0) {
    warnings.push_back(fmt::format(
        "{}: in {} of {} rows a token joins the prompt's end and the completion's begin, or the chat template writes "
        "the prompt otherwise before an answer: what differs is learned; move a space at the prompt's end to the "
        "completion, or go on if this is meant",
        key, summary.joined_prompts, summary.rows));
  }
  if (key == "datasets") warn_of_ends(datasets, options, summary, warnings);
  warn_of_preferences(key, options.objective, read.rows, warnings);
  const bool all_mask = std::all_of(datasets.begin(), datasets.end(),
                                    [&](const auto& dataset) { return masks_prompts(dataset, options); });
  // Types of conversations learn no more than what their turns say.
  const bool are_untyped = std::all_of(datasets.begin(), datasets.end(), [](const auto& dataset) {
    return dataset.type.name.empty() && !dataset.type.is_user_defined();
  });
  const bool learns_prompts = are_untyped && (options.train_on_inputs || options.completion_only_loss == false);
  if (options.objective != data::Objective::kText || !read.rows.has_labels()) return warnings;
  if (!all_mask && !learns_prompts) return warnings;
  const double share = share_of_targets(read.rows);
  if (learns_prompts && share < kMaxTargets) {
    warnings.push_back(fmt::format(
        "{}: {:.0f}% of the tokens are targets though {} asks for prompts, too: rows of ids with labels "
        "keep theirs; make them anew, or remove the key",
        key, 100 * share, options.train_on_inputs ? "train_on_inputs: true" : "completion_only_loss: false"));
  }
  if (all_mask && !learns_prompts && share > kMaxTargets) {
    warnings.push_back(fmt::format("{}: {:.0f}% of the tokens are targets though prompts are masked; {}", key,
                                   100 * share, masking_remedy(datasets, options)));
  }
  return warnings;
}

}  // namespace spillway::train

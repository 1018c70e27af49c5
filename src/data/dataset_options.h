// The data options of a job as plain values (data_settings.h has all of them). Members carry the names of the config's
// keys.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::data {

enum class ExcessLength { kDrop, kTruncate, kRaise };
enum class TruncationMode { kKeepStart, kKeepEnd };
enum class TrainOnEos { kTurn, kAll, kLast, kNone };

// The rules that limit long rows: `sequence_len` selects axolotl's, `max_length` TRL's.
enum class LengthRules { kAxolotl, kTrl };

// The strategies by which rows share a line of sequence_len tokens: TRL's three strategies; axolotl's sample_packing
// (the longest rows first, each into the first line with room); and its sequential variant (a line ends where the next
// row has no room).
enum class PackingStrategy { kBfd, kBfdSplit, kWrapped, kFirstFit, kSequential };

// Returns true if a strategy splits rows into several sequences, so that no row is too long.
[[nodiscard]] constexpr bool splits_rows(PackingStrategy strategy) {
  return strategy == PackingStrategy::kBfdSplit || strategy == PackingStrategy::kWrapped;
}

// The number of rows that the datasets library maps at once, and that TRL therefore packs or reorders together.
constexpr int64_t kMapBatchRows = 1000;

// The properties that a mapping as `type` may have: axolotl's names for user-defined prompts, for SFT and for
// preferences.
inline constexpr std::string_view kUserDefinedProperties[] = {
    "system_prompt", "system_format", "format",        "no_input_format", "field_system",     "field_instruction",
    "field_input",   "field_output",  "field_prompt",  "field_chosen",    "field_rejected",   "field_completion",
    "field_label",   "prompt_format", "chosen_format", "rejected_format", "completion_format"};

// The `type:` of a dataset. Not given: TRL's rules, by the columns. Given and empty: rows are tokenised already. A
// mapping: user-defined prompts.
struct DatasetType {
  bool given = false;
  std::string name;
  std::map<std::string, std::string> properties;  // of a mapping

  [[nodiscard]] bool is_user_defined() const { return !properties.empty(); }
  // Returns a property, or `usual` if the mapping does not have it.
  [[nodiscard]] std::string property(const std::string& key, const char* usual) const {
    const auto found = properties.find(key);
    return found == properties.end() || found->second.empty() ? usual : found->second;
  }
};

// Additional variables of a chat template: a JSON object as text; empty: none.
struct TemplateVariables {
  std::string json;

  bool operator==(const TemplateVariables&) const = default;
};

struct DatasetConfig {
  std::string path;
  DatasetType type;
  std::string name, revision;           // of a data set with several configs; of one in the hub's cache
  std::string ds_type;                  // json, csv, text, parquet, arrow; empty: from the file's name
  std::vector<std::string> data_files;  // inside `path`
  std::string split;                    // perhaps with a slice; empty: the one that evaluates (dataset_files.h)
  int64_t skip = 0;                     // first rows to leave out
  int64_t shards = 1, shards_idx = 0;   // of so many parts the one to take
  double weight = 1;                    // how often a row comes, on average
  std::string data_dir;                 // a folder inside `path`; empty: `path` itself
  std::vector<std::string> columns;     // that rows keep; empty: all
  std::optional<double> fraction;       // of the rows of all datasets; of each dataset or of none
  std::string field;                    // column of `completion` text; empty: text
  std::string text_column;              // column of `pretrain` text; empty: text
  std::string field_system, field_instruction, field_input,
      field_output;  // columns of `alpaca`; empty: their usual names
  std::string field_messages = "messages";
  std::string field_prompt = "prompt", field_chosen = "chosen", field_rejected = "rejected",
              field_completion = "completion", field_label = "label";  // of preference rows
  std::string field_tools = "tools";
  std::string field_thinking = "reasoning_content";
  std::map<std::string, std::string> message_property_mappings;  // property in the template -> property in the row
  std::map<std::string, std::vector<std::string>> roles;         // role in the template -> its names in the rows
  std::vector<std::string> roles_to_train = {"assistant"};
  TrainOnEos train_on_eos = TrainOnEos::kTurn;
  std::optional<TrainOnEos> train_on_eot;
  std::string message_field_training, message_field_training_detail;
  bool drop_system_message = false;
  std::optional<bool> split_thinking;
  std::string chat_template;                     // empty: the config's own
  std::string chat_template_jinja;               // a file, or the template itself
  std::optional<std::string> step_separator;     // of steps: behind each; left out: a line end
  std::optional<int64_t> max_completion_length;  // of all steps of a row
  bool train_on_last_step_only = false;
};

// The purpose of the rows.
enum class Objective {
  kText,      // next tokens
  kPairs,     // DPO and its kin: a chosen and a rejected completion
  kOrpo,      // as kPairs, with a BOS and an EOS whatever the tokenizer adds
  kUnpaired,  // KTO: one completion and whether it is wanted
  kReward,    // whole conversations, a chosen and a rejected one
  kSteps,     // a prompt and the steps of its solution, each right or not: 0 or 1 as the label of its last token
  kPrompts,   // what online reinforcement learning answers (rows/prompts.h)
};

// Returns true if rows have a prompt and completions (PreferenceRow).
[[nodiscard]] constexpr bool has_completions(Objective objective) {
  return objective != Objective::kText && objective != Objective::kSteps && objective != Objective::kPrompts;
}

// Returns the number of sequences in a row, each of at most sequence_len tokens.
[[nodiscard]] constexpr int64_t sequences_of(Objective objective) {
  return has_completions(objective) && objective != Objective::kUnpaired ? 2 : 1;
}

// The ways in which type `pretrain` cuts a text into rows, by axolotl's keys: overlapping windows (sample_packing);
// only the start of the text; or starts with an EOS, several in a row (pretraining_sample_concatenation).
enum class PretrainText { kWindows, kStarts, kJoined };

// The options of all datasets of a job.
struct RowOptions {
  Objective objective = Objective::kText;
  int64_t sequence_len = 512;  // or max_length, under TRL's rules
  LengthRules length_rules = LengthRules::kAxolotl;
  ExcessLength excess_length_strategy = ExcessLength::kDrop;
  TruncationMode truncation_mode = TruncationMode::kKeepStart;
  int64_t min_sample_len = 2;
  int64_t max_prompt_length = 0, max_completion_length = 0;  // TRL's limits of preference rows; 0: none
  std::optional<PackingStrategy> packing;                    // none: rows stay by themselves
  PretrainText pretrain_text = PretrainText::kWindows;
  bool train_on_inputs = false;
  bool deduplicate = false;                  // dataset_exact_deduplication
  std::optional<bool> completion_only_loss;  // TRL's; by default where rows have prompt and completion
  bool assistant_only_loss = false;          // TRL's
  std::string dataset_text_field = "text";   // TRL's
  std::string chat_template, chat_template_jinja;
  TemplateVariables chat_template_kwargs;
  std::optional<std::vector<std::string>>
      eot_tokens;              // that end a turn; none: those that the template's turns end with
  int64_t vocabulary = 0;      // rows of the model's embedding, which may be more than the tokenizer has tokens
  std::optional<std::tm> now;  // what templates show as the time; none: the clock's
};

}  // namespace spillway::data

// axolotl's stepwise_supervised, and TRL's columns of the same: a prompt, the steps of its solution, and whether each
// is right. The label of a step, 0 or 1, stands at its last token; all others are ignored.
#include <algorithm>

#include "base/error.h"
#include "base/sizes.h"
#include "data/rows/row_builder.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

class StepwiseRows : public RowBuilder {
 public:
  StepwiseRows(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        separator_(tokenizer.encode(config.step_separator.value_or("\n"), false)),
        prompt_tokens_(options.max_prompt_length),
        completion_tokens_(config.max_completion_length.value_or(options.max_completion_length)),
        row_tokens_(options.sequence_len),
        last_only_(config.train_on_last_step_only) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const Json steps = list_of(record, required_field(record, "completions", "type"), "completions");
    const Json labels = list_of(record, required_field(record, "labels", "type"), "labels");
    if (steps.size() != labels.size())
      throw input_error(record.where, "expected as many labels as completions, {}, got {}; correct the row",
                        steps.size(), labels.size());
    Row row;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool counts = !last_only_ || i + 1 == steps.size();
      add_step(given_text_of(record, steps[i], "completions"), label_of(record, labels[i]), counts, row);
    }
    if (completion_tokens_ > 0) cut(row, completion_tokens_);
    std::vector<int32_t> prompt =
        tokenizer_.encode(given_text_of(record, required_field(record, "prompt", "type"), "prompt"), false);
    if (tokenizer_.bos_id()) prompt.insert(prompt.begin(), *tokenizer_.bos_id());
    if (prompt_tokens_ > 0 && std::ssize(prompt) > prompt_tokens_) {
      row.cut_tokens += std::ssize(prompt) - prompt_tokens_;
      prompt.erase(prompt.begin(), prompt.end() - prompt_tokens_);
    }
    row.input_ids.insert(row.input_ids.begin(), prompt.begin(), prompt.end());
    row.labels.insert(row.labels.begin(), prompt.size(), kIgnoredLabel);
    cut(row, row_tokens_);
    rows.push_back(std::move(row));
  }

 private:
  [[nodiscard]] static int32_t label_of(const Record& record, const Json& label) {
    if (label.is_boolean()) return label.get<bool>() ? 1 : 0;
    const double number = label.is_number() ? label.get<double>() : -1;
    if (number == 0 || number == 1) return static_cast<int32_t>(number);
    throw input_error(record.where, "expected true or false in 'labels', got {}; correct the row", label.dump());
  }

  static void cut(Row& row, int64_t tokens) {
    if (std::ssize(row.input_ids) <= tokens) return;
    row.cut_tokens += std::ssize(row.input_ids) - tokens;
    resize(row.input_ids, tokens);
    resize(row.labels, tokens);
  }

  void add_step(const std::string& text, int32_t label, bool counts, Row& row) const {
    std::vector<int32_t> ids = tokenizer_.encode(text, false);
    ids.insert(ids.end(), separator_.begin(), separator_.end());
    if (ids.empty()) return;
    row.input_ids.insert(row.input_ids.end(), ids.begin(), ids.end());
    row.labels.insert(row.labels.end(), ids.size(), kIgnoredLabel);
    if (counts) row.labels.back() = label;
  }

  const text::Tokenizer& tokenizer_;
  std::vector<int32_t> separator_;
  int64_t prompt_tokens_, completion_tokens_;  // 0: no limit
  int64_t row_tokens_;
  bool last_only_;
};

}  // namespace

std::unique_ptr<RowBuilder> make_stepwise_rows(const DatasetConfig& config, const RowOptions& options,
                                               const text::Tokenizer& tokenizer) {
  return std::make_unique<StepwiseRows>(config, options, tokenizer);
}

}  // namespace spillway::data

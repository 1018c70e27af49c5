#include "data/rows/prompts.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/files/dataset_records.h"
#include "data/rows/chat_renderer.h"
#include "data/rows/row_builder.h"

namespace spillway::data {
namespace {

class PromptReader {
 public:
  PromptReader(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer,
               bool adds_special_tokens)
      : config_(config),
        tokenizer_(tokenizer),
        renderer_(config, options, tokenizer),
        adds_special_tokens_(adds_special_tokens) {}

  [[nodiscard]] PromptRow read(Record record) const {
    const std::string& name = config_.field_prompt;
    PromptRow row{.prompt = required_field(record, name, "field_prompt"), .where = record.where};
    if (row.prompt.is_array()) row.prompt = messages_of(record, row.prompt, name);
    row.ids = encode(record, row.prompt);
    if (row.ids.empty())
      throw input_error(record.where, "expected at least one token in '{}', got none; write something", name);
    row.columns = std::move(record.fields);
    row.columns.erase(name);
    return row;
  }

 private:
  [[nodiscard]] std::vector<int32_t> encode(const Record& record, const nlohmann::ordered_json& prompt) const {
    if (prompt.is_array())
      return tokenizer_.encode(renderer_.render(record, prompt, tools_of(record), true).text, false);
    return tokenizer_.encode(given_text_of(record, prompt, config_.field_prompt), adds_special_tokens_);
  }

  const DatasetConfig& config_;
  const text::Tokenizer& tokenizer_;
  ChatRenderer renderer_;
  bool adds_special_tokens_;
};

}  // namespace

void check_prompt_type(const DatasetConfig& config) {
  const std::string& type = config.type.name;
  if (!config.type.is_user_defined() && (type.empty() || type == "prompt")) return;
  const std::string where = fmt::format("datasets: {}", config.path);
  if (type.find('.') != std::string::npos)
    throw input_error(where,
                      "expected rows with a column `prompt`, got type {}; transforms in Python are not yet "
                      "supported: write the prompts into a file",
                      quote(type));
  throw input_error(where,
                    "expected no type for rows of prompts, got {}; remove it, and name the column in field_prompt",
                    type.empty() ? "a mapping" : quote(type));
}

std::vector<PromptRow> load_prompts(std::span<const DatasetConfig> configs, const RowOptions& options,
                                    const text::Tokenizer& tokenizer, bool adds_special_tokens) {
  std::vector<PromptRow> rows;
  for (const DatasetConfig& config : configs) {
    const PromptReader reader(config, options, tokenizer, adds_special_tokens);
    RecordReader records = open_dataset(config);
    for (Record record; records.next(record);) rows.push_back(reader.read(std::move(record)));
  }
  if (rows.empty()) throw input_error("datasets", "expected rows with prompts, got none; add some");
  return rows;
}

}  // namespace spillway::data

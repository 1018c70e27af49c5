#include "data/rows/prompts.h"

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/files/dataset_records.h"
#include "data/rows/chat_renderer.h"
#include "data/rows/row_builder.h"

namespace spillway::data {
namespace {

// The number of records that a transform gets at a time.
constexpr size_t kTransformed = 1000;

bool is_transform(const DatasetConfig& config) {
  return !config.type.is_user_defined() && config.type.name.find('.') != std::string::npos;
}

// Gives the next records as a transform makes them.
class TransformedRecords {
 public:
  TransformedRecords(const DatasetConfig& config, const RowTransform& transform, RecordReader& records)
      : function_(config.type.name), transform_(transform), records_(records) {}

  // False at the end.
  bool next(std::vector<Record>& records) {
    records.clear();
    std::vector<nlohmann::ordered_json> fields;
    for (Record record; fields.size() < kTransformed && records_.next(record);) {
      fields.push_back(std::move(record.fields));
      records.push_back({.where = std::move(record.where), .copy = record.copy});
    }
    if (fields.empty()) return false;
    fields = transform_(function_, std::move(fields));
    SPILLWAY_CHECK(fields.size() == records.size(), "{} rows of {} records", fields.size(), records.size());
    for (size_t i = 0; i < records.size(); ++i) records[i].fields = std::move(fields[i]);
    return true;
  }

 private:
  const std::string& function_;
  const RowTransform& transform_;
  RecordReader& records_;
};

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
    row.ids = encode(record, row.prompt, row.left_out);
    if (row.ids.empty())
      throw input_error(record.where, "expected at least one token in '{}', got none; write something", name);
    row.columns = std::move(record.fields);
    row.columns.erase(name);
    return row;
  }

 private:
  [[nodiscard]] std::vector<int32_t> encode(const Record& record, const nlohmann::ordered_json& prompt,
                                            LeftOutParts& left_out) const {
    if (prompt.is_array()) {
      // The last message is the one to answer.
      const auto is_answered = [&](size_t i) { return i + 1 == prompt.size(); };
      return tokenizer_.encode(renderer_.render(record, prompt, tools_of(record), true, is_answered, left_out).text,
                               false);
    }
    return tokenizer_.encode(given_text_of(record, prompt, config_.field_prompt), adds_special_tokens_);
  }

  const DatasetConfig& config_;
  const text::Tokenizer& tokenizer_;
  ChatRenderer renderer_;
  bool adds_special_tokens_;
};

// Finds rows that were seen before: rows are equal if their prompts and all their columns are. Copies that a dataset's
// weight asks for are no duplicates.
class SeenPrompts {
 public:
  // `copy` is Record::copy.
  bool is_new(const PromptRow& row, int64_t copy) {
    const auto text = [](const nlohmann::ordered_json& value) {
      return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    };
    const bool is_new = seen_.insert(text(row.prompt) + text(row.columns) + std::to_string(copy)).second;
    duplicates_ += is_new ? 0 : 1;
    return is_new;
  }
  [[nodiscard]] int64_t duplicates() const { return duplicates_; }

 private:
  std::unordered_set<std::string> seen_;
  int64_t duplicates_ = 0;
};

}  // namespace

void check_prompt_type(const DatasetConfig& config, std::string_view where) {
  const std::string& type = config.type.name;
  if (!config.type.is_user_defined() && (type.empty() || type == "prompt")) return;
  if (is_transform(config)) return;
  throw input_error(where,
                    "expected no type for rows of prompts, or module.function, got {}; remove it, and name the column "
                    "in field_prompt",
                    type.empty() ? "a mapping" : quote(type));
}

std::vector<PromptRow> load_prompts(std::span<const DatasetConfig> configs, const RowOptions& options,
                                    const text::Tokenizer& tokenizer, bool adds_special_tokens,
                                    const RowTransform& transform) {
  std::vector<PromptRow> rows;
  SeenPrompts seen;
  LeftOutParts left_out;
  const auto add = [&](const PromptReader& reader, Record record) {
    const int64_t copy = record.copy;
    PromptRow row = reader.read(std::move(record));
    if (options.deduplicate && !seen.is_new(row, copy)) return;
    left_out.add(row.left_out);
    rows.push_back(std::move(row));
  };
  std::vector<RecordReader> readers = open_datasets(configs);
  for (size_t i = 0; i < configs.size(); ++i) {
    const DatasetConfig& config = configs[i];
    RecordReader& records = readers[i];
    const PromptReader reader(config, options, tokenizer, adds_special_tokens);
    if (is_transform(config) && transform) {
      TransformedRecords transformed(config, transform, records);
      for (std::vector<Record> some; transformed.next(some);)
        for (Record& record : some) add(reader, std::move(record));
      continue;
    }
    for (Record record; records.next(record);) add(reader, std::move(record));
  }
  if (seen.duplicates() > 0) log_info("datasets: {} prompts, {} duplicates dropped", rows.size(), seen.duplicates());
  if (left_out.any()) log_warning("datasets: {}", left_out_warning(left_out, std::ssize(rows)));
  if (rows.empty()) throw input_error("datasets", "expected rows with prompts, got none; add some");
  return rows;
}

}  // namespace spillway::data

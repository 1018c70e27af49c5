#include "data/prepared/identity.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/file_version.h"
#include "base/json.h"
#include "base/local_time.h"
#include "data/files/dataset_files.h"
#include "data/rows/row_builder.h"
#include "data/rows/truncation.h"
#include "data/stream/row_stream.h"
#include "io/checksum.h"
#include "io/mapped_file.h"
#include "text/chat_template_files.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Increased when the same input gives other rows than before.
constexpr int kRowsVersion = 9;

template <typename T>
Json identity_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<int>(value);
  } else {
    return value;
  }
}
template <typename T>
Json identity_value(const std::optional<T>& value) {
  return value ? identity_value(*value) : Json();
}
Json identity_value(const TemplateVariables& variables) { return variables.json; }
Json identity_value(const DatasetType& type) { return type.given ? Json::array({type.name, type.properties}) : Json(); }

template <typename... Members>
Json identity_list(const Members&... members) {
  return Json::array({identity_value(members)...});
}

// Replaces removed members, so that streams resume from checkpoints that were written when they existed.
constexpr std::string_view kGone;

// Structured bindings name every member, so that a new one cannot be forgotten.
Json members_of(const DatasetConfig& config) {
  const auto& [path, type, name, revision, ds_type, data_files, split, skip, shards, shards_idx, weight, data_dir,
               columns, fraction, field, text_column, field_system, field_instruction, field_input, field_output,
               field_messages, field_prompt, field_chosen, field_rejected, field_completion, field_label, field_tools,
               field_thinking, message_property_mappings, roles, roles_to_train, train_on_eos, train_on_eot,
               message_field_training, message_field_training_detail, drop_system_message, split_thinking,
               chat_template, chat_template_jinja, step_separator, max_completion_length, train_on_last_step_only] =
      config;
  Json list = identity_list(path, type, name, revision, ds_type, data_files, split, skip, shards, shards_idx, weight,
                            field, text_column, field_system, field_instruction, field_input, field_output,
                            field_messages, field_prompt, field_chosen, field_rejected, field_completion, field_label,
                            field_tools, field_thinking, message_property_mappings, roles, roles_to_train, train_on_eos,
                            train_on_eot, message_field_training, message_field_training_detail, drop_system_message,
                            split_thinking, chat_template, chat_template_jinja, step_separator, max_completion_length,
                            train_on_last_step_only, kGone, kGone);
  // Newer members count only if they are set, so that older streams keep their identity.
  if (!data_dir.empty() || !columns.empty() || fraction) list.push_back(identity_list(data_dir, columns, fraction));
  return list;
}

Json members_of(const RowOptions& options) {
  const auto& [objective, sequence_len, length_rules, excess_length_strategy, truncation_mode, min_sample_len,
               max_prompt_length, max_completion_length, packing, pretrain_text, train_on_inputs, deduplicate,
               completion_only_loss, assistant_only_loss, dataset_text_field, chat_template, chat_template_jinja,
               chat_template_kwargs, eot_tokens, vocabulary,
               now] = options;  // `now` matters where a template shows it: time_in_rows()
  // Packing strategies that need the same rows share them.
  const auto& [most, least, long_rows, end_that_stays, keep_without_targets] = length_rule(options);
  const Json rule = identity_list(most, least, long_rows, end_that_stays, keep_without_targets);
  return identity_list(objective, sequence_len, length_rules, excess_length_strategy, truncation_mode, min_sample_len,
                       max_prompt_length, max_completion_length, rule, pretrain_text, train_on_inputs, deduplicate,
                       completion_only_loss, assistant_only_loss, dataset_text_field, chat_template,
                       chat_template_jinja, chat_template_kwargs, eot_tokens, vocabulary);
}

// Leaves out the options that only group lines into micro-batches: a stream's position counts lines.
Json members_of(const BatchOptions& options) {
  const auto& [rows, sequence_len, packing, packing_scope_rows, line_rows, shuffle_before_packing, packing_seed, order,
               step_batches, drops_last, seed] = options;  // a stream neither shuffles before it packs nor has an end
  return identity_list(sequence_len, packing, packing_scope_rows, line_rows, shuffle_before_packing, order, seed);
}

Json members_of(const StreamOptions& options) {
  const auto& [rows, batches, shuffle, block_records, block_bytes, threads, inspect] = options;
  return Json::array({members_of(rows), members_of(batches),
                      identity_list(shuffle.records, shuffle.bytes, shuffle.seed), block_records, block_bytes});
}

Json data_file(const fs::path& path) {
  try {
    const auto [bytes, modified, status_changed] = file_version(path);
    return Json::array({fs::absolute(path).lexically_normal().string(), bytes, modified, status_changed});
  } catch (const fs::filesystem_error& error) {
    throw input_error(path.string(), "expected a file, got \"{}\"; check the path", error.code().message());
  }
}

// Adds the content of a file; nothing for a template that is the text itself.
void add_content(Json& list, const fs::path& path) {
  std::error_code ignored;
  if (!path.empty() && fs::is_regular_file(path, ignored))
    list.push_back({path.filename().string(), checksum_text(MappedFile(path).bytes())});
}

Json tokenizer_files(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const char* prefix :
         {"tokenizer", "special_tokens_map", "added_tokens", "chat_template", "generation_config", "vocab", "merges"}) {
      if (name.starts_with(prefix)) paths.push_back(entry.path());
    }
  }
  for (const fs::path& path : text::additional_chat_template_files(folder)) paths.push_back(path);
  std::sort(paths.begin(), paths.end());
  Json list = Json::array();
  for (const fs::path& path : paths) add_content(list, path);
  return list;
}

enum class TimeAsked { kNone, kDate, kTime };

// Returns how much of the time the template's text asks for; any directive that could change within a day counts.
TimeAsked time_asked(const text::ChatTemplate& chat_template) {
  if (!chat_template.asks_for_time()) return TimeAsked::kNone;
  const std::string_view source = chat_template.source();
  for (size_t at = source.find('%'); at < source.size(); at = source.find('%', at + 1)) {
    const std::string_view directive = source.substr(at + 1, 1);
    if (directive.find_first_of("cEfHIklMOpPrRsSTXzZ") != std::string_view::npos) return TimeAsked::kTime;
  }
  return TimeAsked::kDate;
}

TimeAsked time_asked(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer) {
  // Types of other rows than conversations; without a type, columns say what a row is.
  const std::string& type = config.type.name;
  const bool is_plain = config.type.given && !is_chat_rows_type(type) && !type.starts_with("reflection");
  if (options.objective == Objective::kSteps || (options.objective == Objective::kText && is_plain))
    return TimeAsked::kNone;
  try {
    const text::ChatTemplates templates = choose_chat_template(config, options, tokenizer);
    const TimeAsked usual = time_asked(templates.usual);
    return templates.tool_use ? std::max(usual, time_asked(*templates.tool_use)) : usual;
  } catch (const InputError&) {
    return TimeAsked::kNone;  // what cannot be used makes no rows
  }
}

}  // namespace

std::string rows_identity(std::span<const DatasetConfig> configs, const RowOptions& options, const fs::path& tokenizer,
                          const text::SpecialTokenNames& special, std::string_view time) {
  Json datasets = Json::array(), files = Json::array(), templates = Json::array();
  for (const DatasetConfig& config : configs) {
    datasets.push_back(members_of(config));
    for (const fs::path& file : dataset_files(config)) files.push_back(data_file(file));
    add_content(templates, config.chat_template_jinja);
  }
  add_content(templates, options.chat_template_jinja);
  const auto& [bos, eos, pad, unk, more, plain, overrides] = special;
  Json identity{{"version", kRowsVersion},
                {"datasets", datasets},
                {"options", members_of(options)},
                {"special_tokens", identity_list(bos, eos, pad, unk, more, plain, overrides)},
                {"files", files},
                {"tokenizer", tokenizer_files(tokenizer)},
                {"templates", templates}};
  if (!time.empty()) identity["time"] = time;
  return json_text(identity);
}

std::string time_in_rows(std::span<const DatasetConfig> configs, const RowOptions& options,
                         const text::Tokenizer& tokenizer) {
  TimeAsked asked = TimeAsked::kNone;
  for (const DatasetConfig& config : configs) asked = std::max(asked, time_asked(config, options, tokenizer));
  std::string time = time_text(options.now.value());
  switch (asked) {
    case TimeAsked::kNone:
      return "";
    case TimeAsked::kDate:
      return time.substr(0, time.find('T'));
    case TimeAsked::kTime:
      break;
  }
  return time;
}

std::string stream_identity(const StreamSource& source) {
  Json datasets = Json::array();
  for (const DatasetConfig& config : source.datasets()) datasets.push_back(members_of(config));
  const std::string text =
      json_text(Json{{"version", kRowsVersion}, {"datasets", datasets}, {"options", members_of(source.options())}});
  return checksum_text(std::as_bytes(std::span(text)));
}

}  // namespace spillway::data

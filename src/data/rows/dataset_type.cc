#include "data/rows/dataset_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "data/rows/conversation.h"
#include "data/rows/instruction_kinds.h"
#include "data/rows/preference_rows.h"
#include "data/rows/prompts.h"
#include "data/rows/row_builder.h"

namespace spillway::data {
namespace {

// The kinds of rows that read options of an entry, as bits.
enum Reader : uint32_t {
  kColumnRows = 1,  // without a type
  kChatRows = 2,
  kInstruction = 4,
  kInput = 8,
  kOutput = 16,
  kSystemColumn = 32,
  kCompletionText = 64,
  kPretrainText = 128,
  kStepRows = 256,
  kPromptRows = 512,
  kPreferenceColumns = 1024,
  kPreferenceTurns = 2048,     // chat_template.default
  kPreferenceAnswers = 4096,   // chat_template.argilla_chat
  kPreferenceRendered = 8192,  // other preferences that a chat template renders
};
constexpr uint32_t kPreferenceChats = kPreferenceTurns | kPreferenceAnswers;

struct EntryOption {
  std::string_view key;
  uint32_t readers;
  std::string_view text_type, preference_type;  // that read it; empty: none
  bool (*is_usual)(const DatasetConfig& config);
};

template <auto Member>
bool has_default(const DatasetConfig& config) {
  return config.*Member == DatasetConfig().*Member;
}

// Returns true for names that rows of messages have without a mapping.
bool maps_usual_names(const DatasetConfig& config) {
  return std::all_of(
      config.message_property_mappings.begin(), config.message_property_mappings.end(), [](const auto& mapping) {
        const auto& [name, source] = mapping;
        return source == name || (name == "role" && source == "from") || (name == "content" && source == "value");
      });
}

bool maps_usual_roles(const DatasetConfig& config) {
  return std::all_of(config.roles.begin(), config.roles.end(), [](const auto& mapping) {
    return std::all_of(mapping.second.begin(), mapping.second.end(),
                       [&](const std::string& name) { return usual_role(name) == mapping.first; });
  });
}

// Types other than conversations have one answer, whose end is a target.
bool learns_ends(const DatasetConfig& config) {
  return config.train_on_eos != TrainOnEos::kNone && config.train_on_eot != TrainOnEos::kNone;
}

using Entry = DatasetConfig;
constexpr std::string_view kChatType = "chat_template", kTurnsType = "chat_template.default";
const std::array kEntryOptions = {
    EntryOption{"field", kCompletionText, "completion", "", has_default<&Entry::field>},
    EntryOption{"text_column", kPretrainText, "pretrain", "", has_default<&Entry::text_column>},
    EntryOption{"field_instruction", kChatRows | kInstruction, "alpaca", "", has_default<&Entry::field_instruction>},
    EntryOption{"field_input", kChatRows | kInput, "alpaca", "", has_default<&Entry::field_input>},
    EntryOption{"field_output", kChatRows | kOutput, "alpaca", "", has_default<&Entry::field_output>},
    EntryOption{"field_system", kChatRows | kSystemColumn, "chat_template or alpaca_w_system", "",
                has_default<&Entry::field_system>},
    EntryOption{"field_messages", kChatRows | kPreferenceTurns, kChatType, kTurnsType,
                has_default<&Entry::field_messages>},
    EntryOption{"field_tools", kChatRows, kChatType, "", has_default<&Entry::field_tools>},
    EntryOption{"field_thinking", kChatRows, kChatType, "", has_default<&Entry::field_thinking>},
    EntryOption{"message_property_mappings", kChatRows | kPreferenceChats, kChatType, kTurnsType, maps_usual_names},
    EntryOption{"message_field_role", kChatRows | kPreferenceChats, kChatType, kTurnsType, maps_usual_names},
    EntryOption{"message_field_content", kChatRows | kPreferenceChats, kChatType, kTurnsType, maps_usual_names},
    EntryOption{"roles", kChatRows | kPreferenceChats, kChatType, kTurnsType, maps_usual_roles},
    EntryOption{"roles_to_train", kChatRows, kChatType, "", has_default<&Entry::roles_to_train>},
    EntryOption{"train_on_eos", kChatRows, kChatType, "", learns_ends},
    EntryOption{"train_on_eot", kChatRows, kChatType, "", learns_ends},
    EntryOption{"message_field_training", kChatRows, kChatType, "", has_default<&Entry::message_field_training>},
    EntryOption{"message_field_training_detail", kChatRows, kChatType, "",
                has_default<&Entry::message_field_training_detail>},
    EntryOption{"drop_system_message", kChatRows, kChatType, "", has_default<&Entry::drop_system_message>},
    EntryOption{"split_thinking", kChatRows, kChatType, "",
                [](const Entry& config) { return !config.split_thinking.value_or(false); }},
    EntryOption{"field_prompt", kPreferenceColumns | kPromptRows, "", "passthrough", has_default<&Entry::field_prompt>},
    EntryOption{"field_chosen", kPreferenceColumns | kPreferenceChats, "", kTurnsType,
                has_default<&Entry::field_chosen>},
    EntryOption{"field_rejected", kPreferenceColumns | kPreferenceChats, "", kTurnsType,
                has_default<&Entry::field_rejected>},
    EntryOption{"field_completion", kPreferenceColumns, "", "passthrough", has_default<&Entry::field_completion>},
    EntryOption{"field_label", kPreferenceColumns, "", "passthrough", has_default<&Entry::field_label>},
    EntryOption{"chat_template",
                kColumnRows | kChatRows | kPromptRows | kPreferenceColumns | kPreferenceChats | kPreferenceRendered,
                kChatType, kTurnsType, has_default<&Entry::chat_template>},
    EntryOption{"chat_template_jinja",
                kColumnRows | kChatRows | kPromptRows | kPreferenceColumns | kPreferenceChats | kPreferenceRendered,
                kChatType, kTurnsType, has_default<&Entry::chat_template_jinja>},
    EntryOption{"step_separator", kStepRows, "", "", has_default<&Entry::step_separator>},
    EntryOption{"max_completion_length", kStepRows, "", "", has_default<&Entry::max_completion_length>},
    EntryOption{"train_on_last_step_only", kStepRows, "", "", has_default<&Entry::train_on_last_step_only>},
};

uint32_t reader_of_preferences(const DatasetConfig& config, Objective objective) {
  const uint32_t rendered = objective == Objective::kReward ? kPreferenceRendered : 0U;
  if (config.type.is_user_defined()) return rendered;
  std::string_view name = config.type.name;
  constexpr std::string_view kReward = "bradley_terry.";
  if (name.starts_with(kReward)) name.remove_prefix(kReward.size());
  if (name.empty() || name.starts_with("passthrough")) return kPreferenceColumns;
  if (name == "chat_template.argilla_chat") return kPreferenceAnswers;
  if (name == "chat_template.argilla") return kPreferenceRendered;
  if (name.starts_with(kChatType)) return kPreferenceTurns | rendered;
  return rendered;
}

uint32_t reader_of_text(const DatasetConfig& config) {
  const std::string& name = config.type.name;
  if (!config.type.given) return kColumnRows;
  if (config.type.is_user_defined() || name.empty()) return 0;
  if (is_chat_rows_type(name)) return kChatRows;
  if (name == "completion") return kCompletionText;
  if (name == "pretrain") return kPretrainText;
  const auto kind = instruction_kind(name, "type");
  if (!kind) return 0;
  return (is_renamable(kind->instruction) ? kInstruction : 0U) | (is_renamable(kind->input) ? kInput : 0U) |
         (is_renamable(kind->output) ? kOutput : 0U) | (kind->system_column.empty() ? 0U : kSystemColumn);
}

uint32_t reader_of(const DatasetConfig& config, Objective objective) {
  if (objective == Objective::kSteps) return kStepRows;
  if (objective == Objective::kPrompts) return kPromptRows;
  return has_completions(objective) ? reader_of_preferences(config, objective) : reader_of_text(config);
}

// Returns the properties of a mapping that rows of the objective read.
std::vector<std::string_view> read_properties(Objective objective) {
  if (objective == Objective::kText)
    return {"system_prompt", "system_format",     "format",      "no_input_format",
            "field_system",  "field_instruction", "field_input", "field_output"};
  if (objective == Objective::kUnpaired)
    return {"field_prompt", "field_system", "field_completion", "field_label", "prompt_format", "completion_format"};
  return {"field_prompt",  "field_system",  "field_chosen",   "field_rejected",
          "prompt_format", "chosen_format", "rejected_format"};
}

// Returns what to write so that an option counts.
std::string advice_for(const EntryOption& option, const DatasetConfig& config, Objective objective) {
  const std::vector<std::string_view> properties = read_properties(objective);
  if (config.type.is_user_defined() && std::find(properties.begin(), properties.end(), option.key) != properties.end())
    return fmt::format("write it below type, as type.{}", option.key);
  const std::string_view type = objective == Objective::kText ? option.text_type
                                : has_completions(objective)  ? option.preference_type
                                                              : std::string_view();
  return type.empty() ? "" : fmt::format("set type: {}", type);
}

}  // namespace

void check_dataset_type(const DatasetConfig& config, Objective objective, std::string_view where) {
  if (has_completions(objective)) return check_preference_type(config, objective, where);
  if (objective == Objective::kPrompts) return check_prompt_type(config, where);
  if (config.type.name == kVideoLatents && objective == Objective::kText) return;
  return objective == Objective::kSteps ? check_steps_type(config, where) : check_text_type(config, where);
}

std::vector<UnreadOption> unread_options(const DatasetConfig& config, Objective objective) {
  std::vector<UnreadOption> unread;
  if (config.type.name == kVideoLatents) return unread;
  const uint32_t reader = reader_of(config, objective);
  for (const EntryOption& option : kEntryOptions) {
    if ((option.readers & reader) != 0) continue;
    // Without a type all of a conversation is a target, whatever its role.
    const bool chooses_targets =
        option.key == "roles_to_train" || option.key == "train_on_eos" || option.key == "train_on_eot";
    const bool is_harmless = option.is_usual(config) && !(chooses_targets && reader == kColumnRows);
    unread.push_back({std::string(option.key), advice_for(option, config, objective), is_harmless});
  }
  const std::vector<std::string_view> properties = read_properties(objective);
  for (const auto& [name, value] : config.type.properties) {
    if (std::find(properties.begin(), properties.end(), name) == properties.end())
      unread.push_back({"type." + name, "", value.empty()});
  }
  return unread;
}

std::string rows_named(const DatasetType& type) {
  if (!type.given) return "rows without a type";
  if (type.is_user_defined()) return "rows of a mapping as type";
  return type.name.empty() ? "rows of an empty type" : fmt::format("rows of type: {}", type.name);
}

}  // namespace spillway::data

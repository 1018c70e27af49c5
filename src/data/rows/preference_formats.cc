// axolotl's preference types: which columns a record has, and what text stands around them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/rows/preference_rows.h"
#include "data/rows/row_builder.h"
#include "text/jinja/unicode.h"
#include "text/left_out_warnings.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// The marks with which a chat format writes turns.
struct TurnMarks {
  std::string_view name;
  std::string_view open, opened;  // around a role
  std::string_view end, between;  // behind a turn, and between that and the next

  [[nodiscard]] std::string begin(std::string_view role) const { return fmt::format("{}{}{}", open, role, opened); }
  [[nodiscard]] std::string turn(std::string_view role, std::string_view content) const {
    return fmt::format("{}{}{}{}", begin(role), content, end, between);
  }
};

constexpr std::array kMarks = {
    TurnMarks{"chatml", "<|im_start|>", "\n", "<|im_end|>", "\n"},
    TurnMarks{"llama3", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", ""},
};

// The place of the answer in the column of a completion, by variant.
enum class Answer {
  kText,           // it is the answer
  kSecondMessage,  // a list of messages, whose second it is
  kLastMessage,    // a list of messages, whose last it is, the others being the prompt
};

// A variant of chatml and llama3, `chatml.NAME`.
struct Variant {
  std::string_view name;
  std::vector<std::string_view> prompts;  // columns, the first that a record has
  Answer answer = Answer::kText;
};

const std::vector<Variant>& variants_of(Objective objective) {
  static const std::vector<Variant> kPaired = {{"default", {"prompt", "input", "question", "instruction"}},
                                               {"argilla_chat", {}, Answer::kSecondMessage},
                                               {"icr", {"input"}},
                                               {"intel", {"question"}},
                                               {"prompt_pairs", {"prompt"}},
                                               {"ultra", {"prompt"}, Answer::kSecondMessage}};
  static const std::vector<Variant> kUnpaired = {{"argilla", {"instruction"}},
                                                 {"argilla_chat", {}, Answer::kLastMessage},
                                                 {"intel", {"question"}},
                                                 {"prompt_pairs", {"prompt"}},
                                                 {"ultra", {"prompt"}}};
  return objective == Objective::kUnpaired ? kUnpaired : kPaired;
}

const Json& preference_field(const Record& record, const Json& object, std::string_view name, std::string_view column) {
  if (!object.is_object() || !object.contains(name)) {
    throw input_error(record.where, "expected a '{}' in each message of '{}', got {}; correct the row", name, column,
                      object.is_object() ? "none" : object.type_name());
  }
  return object[name];
}

std::string content_of(const Record& record, const Json& message, std::string_view column) {
  return given_text_of(record, preference_field(record, message, "content", column), column);
}

// Returns false, for every message of a prompt.
bool is_not_learned(size_t /*message*/) { return false; }

Json list_column(const Record& record, std::string_view column, size_t least) {
  Json list = list_of(record, required_field(record, column, "type"), column);
  if (list.size() < least)
    throw input_error(record.where, "expected at least {} messages in '{}', got {}; correct the row", least, column,
                      list.size());
  return list;
}

// chatml.* and llama3.*
class MarkedFormat : public PreferenceFormat {
 public:
  MarkedFormat(const TurnMarks& marks, const Variant& variant, Objective objective)
      : marks_(marks), variant_(variant), unpaired_(objective == Objective::kUnpaired) {}

  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    PreferenceExample example;
    example.prompt = prompt(record);
    if (unpaired_) {
      example.completions = {answer(record, "completion")};
      example.label = label_of(record, "label");
    } else {
      // `default` also reads chosen_response and rejected_response.
      for (const char* column : {"chosen", "rejected"}) {
        const std::string longer = fmt::format("{}_response", column);
        const bool use_longer = variant_.name == "default" && !record.fields.contains(column);
        example.completions.push_back(answer(record, use_longer ? longer : column));
        if (variant_.answer == Answer::kSecondMessage) count_later_messages(record, column, example.left_out);
      }
    }
    return example;
  }

 private:
  [[nodiscard]] std::string prompt(const Record& record) const {
    std::string text;
    if (variant_.answer == Answer::kLastMessage) {
      const Json messages = list_column(record, "completion", 1);
      for (size_t i = 0; i + 1 < messages.size(); ++i) {
        const std::string role = text_of(record, preference_field(record, messages[i], "role", "completion"), "role");
        text += marks_.turn(role, content_of(record, messages[i], "completion"));
      }
    } else if (variant_.prompts.empty()) {
      text = marks_.turn("user", content_of(record, list_column(record, "chosen", 2)[0], "chosen"));
    } else {
      const auto named = std::find_if(variant_.prompts.begin(), variant_.prompts.end(),
                                      [&](std::string_view name) { return record.fields.contains(name); });
      const std::string_view column = named == variant_.prompts.end() ? variant_.prompts.front() : *named;
      const auto system = record.fields.find("system");
      if (system != record.fields.end()) {
        const std::string value = text_of(record, *system, "system");
        if (!value.empty()) text = marks_.turn("system", value);
      }
      text += marks_.turn("user", given_text_of(record, required_field(record, column, "type"), column));
    }
    return text + marks_.begin("assistant");
  }

  // Counts the turns behind the second message, which the variant does not read, as axolotl's does not.
  static void count_later_messages(const Record& record, std::string_view column, LeftOutParts& left_out) {
    const Json messages = list_column(record, column, 2);
    for (size_t i = 2; i < messages.size(); ++i) left_out.add(text::kind_of({.message = i}, messages), 1);
  }

  [[nodiscard]] std::string answer(const Record& record, std::string_view column) const {
    std::string text;
    if (variant_.answer == Answer::kText) {
      text = given_text_of(record, required_field(record, column, "type"), column);
    } else {
      const bool last = variant_.answer == Answer::kLastMessage;
      const Json messages = list_column(record, column, last ? 1 : 2);
      const auto role = last ? messages[0].end() : messages[1].find("role");
      if (!last && role != messages[1].end() && *role != Json("assistant"))
        throw input_error(record.where,
                          "expected the assistant as the second of '{}', which this type reads, got {}; write type: "
                          "chat_template.argilla_chat, or leave out the messages before",
                          column, role->dump());
      text = content_of(record, last ? messages.back() : messages[1], column);
    }
    return text + std::string(marks_.end);
  }

  const TurnMarks& marks_;
  const Variant& variant_;
  bool unpaired_;
};

// chat_template.default and .argilla_chat: the prompt as the template writes it, and of each answer what the template
// writes from the answer's content on.
class TemplateFormat : public PreferenceFormat {
 public:
  TemplateFormat(const DatasetConfig& config, bool in_chosen, const ChatRenderer& renderer)
      : config_(config), in_chosen_(in_chosen), renderer_(renderer) {
    for (const char* property : {"role", "content"}) config_.message_property_mappings.try_emplace(property, property);
    for (const auto& [role, names] : config.roles) {
      for (const std::string& name : names) roles_[name] = role;
    }
    if (config.roles.empty()) {
      for (const char* role : {"user", "assistant", "system", "tool"}) roles_[role] = role;
    }
  }

  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    const std::string& chosen = config_.field_chosen;
    Json messages = in_chosen_ ? list_column(record, chosen, 1) : prompt_messages(record);
    if (in_chosen_) messages.erase(messages.size() - 1);
    PreferenceExample example;
    take_unread(record, messages, is_not_learned, example.left_out);
    const Json said = messages;
    for (Json& message : messages) message = mapped(record, message, in_chosen_ ? chosen : config_.field_messages);
    example.prompt = renderer_.render(record, messages, {}, true, is_not_learned, example.left_out).text;
    for (const std::string& column : {chosen, config_.field_rejected}) {
      count_earlier(record, column, said, example.left_out);
      const Json message = answer_message(record, column);
      take_unread(
          record, Json::array({message}), [](size_t) { return true; }, example.left_out);
      example.completions.push_back(answer(record, mapped(record, message, column), column));
    }
    return example;
  }

 private:
  [[nodiscard]] Json prompt_messages(const Record& record) const {
    const Json& value = required_field(record, config_.field_messages, "field_messages");
    if (!value.is_string()) return list_of(record, value, config_.field_messages);
    return Json::array({message_as_in_rows("user", value)});
  }

  [[nodiscard]] Json message_as_in_rows(const char* role, const Json& content) const {
    const auto& names = config_.message_property_mappings;
    return {{names.at("role"), role}, {names.at("content"), content}};
  }

  // Speaks of what messages have beside role and content, which this type does not read, as axolotl's does not. Throws
  // InputError if it is of an answer.
  static void take_unread(const Record& record, const Json& messages, const IsLearned& is_learned,
                          LeftOutParts& left_out) {
    const auto take = [&](size_t i, const char* key, text::MessagePart part) {
      const auto found = messages[i].is_object() ? messages[i].find(key) : messages[i].end();
      if (found == messages[i].end() || found->is_null() || found->empty()) return;
      if (is_learned(i))
        throw input_error(record.where,
                          "expected an answer with role and content alone for a type of chat_template, got {}; leave "
                          "out `type`, so that the template shows them, or remove them",
                          key);
      left_out.add(text::kind_of({.message = i, .part = part}, messages), 1);
    };
    for (size_t i = 0; i < messages.size(); ++i) {
      take(i, "tool_calls", text::MessagePart::kToolCall);
      for (const char* key : text::kReasoningKeys) take(i, key, text::MessagePart::kThought);
    }
  }

  // Counts the messages before an answer that the prompt does not have.
  static void count_earlier(const Record& record, const std::string& column, const Json& prompt,
                            LeftOutParts& left_out) {
    const auto found = record.fields.find(column);
    if (found == record.fields.end() || !found->is_array()) return;
    for (size_t i = 0; i + 1 < found->size(); ++i) {
      if (std::find(prompt.begin(), prompt.end(), (*found)[i]) == prompt.end())
        left_out.add(text::kind_of({.message = i}, *found), 1);
    }
  }

  // Returns the answer as the row has it: a text as a message, a message, or the last of several.
  [[nodiscard]] Json answer_message(const Record& record, const std::string& column) const {
    const Json& value =
        required_field(record, column, column == config_.field_chosen ? "field_chosen" : "field_rejected");
    if (value.is_string()) return message_as_in_rows("assistant", value);
    if (!value.is_array()) return value;
    if (value.empty()) throw input_error(record.where, "expected a message in '{}', got none; correct the row", column);
    return value.back();
  }

  [[nodiscard]] Json mapped(const Record& record, const Json& message, std::string_view column) const {
    const auto& names = config_.message_property_mappings;
    const std::string role = text_of(record, preference_field(record, message, names.at("role"), column), "role");
    const auto found = roles_.find(role);
    if (found == roles_.end())
      throw input_error(record.where, "expected a role that `roles` maps, got {}; add it there", quote(role));
    return {{"role", found->second}, {"content", preference_field(record, message, names.at("content"), column)}};
  }

  [[nodiscard]] std::string answer(const Record& record, const Json& message, std::string_view column) const {
    const std::string content = text_of(record, message["content"], column);
    if (content.empty())
      throw input_error(record.where, "expected an answer in '{}', got an empty one; remove the row", column);
    const std::string text = turn_text(record, message["role"], content);
    // The answer's text may also occur in what the template writes around it: another text stands where it begins.
    constexpr const char* kOther = "[[other_answer]]";
    const std::string other = turn_text(record, message["role"], kOther);
    const size_t at = other.find(kOther);
    if (at == std::string::npos || text.compare(0, at, other, 0, at) != 0 ||
        text.compare(at, content.size(), content) != 0) {
      throw input_error(record.where,
                        "expected a template that shows the answer in '{}' as it is, got another; choose "
                        "another chat_template",
                        column);
    }
    return std::string(text::jinja::strip(std::string_view(text).substr(at), false, true, nullptr));
  }

  // Returns a question and an answer as the template writes them.
  [[nodiscard]] std::string turn_text(const Record& record, const Json& role, const std::string& content) const {
    const Json turns =
        Json::array({{{"role", "user"}, {"content", "[[dummy_message]]"}}, {{"role", role}, {"content", content}}});
    return renderer_.render(record, turns, {}, false).text;
  }

  DatasetConfig config_;
  bool in_chosen_;  // the prompt stands in the chosen conversation
  const ChatRenderer& renderer_;
  std::map<std::string, std::string> roles_;
};

// ORPO's chat_template.argilla: user and assistant in turn; the answers are what the whole has beyond the prompt.
class ArgillaFormat : public PreferenceFormat {
 public:
  explicit ArgillaFormat(const ChatRenderer& renderer) : renderer_(renderer) {}

  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    const Json chosen = list_column(record, "chosen", 2), rejected = list_column(record, "rejected", 1);
    if (chosen.size() % 2 != 0)
      throw input_error(record.where, "expected turns of user and assistant in 'chosen', got {}; correct the row",
                        chosen.size());
    const auto turn = [](const char* role, const Json& content) { return Json{{"role", role}, {"content", content}}; };
    Json messages = Json::array();
    if (record.fields.contains("system")) {
      const std::string system = text_of(record, record.fields["system"], "system");
      if (!system.empty()) messages.push_back(turn("system", system));
    }
    for (size_t i = 0; i < chosen.size(); i += 2) {
      const Json* own = given_field(record, "prompt");
      messages.push_back(turn("user", own != nullptr ? *own : Json(content_of(record, chosen[i], "chosen"))));
      if (i + 2 < chosen.size()) messages.push_back(turn("assistant", content_of(record, chosen[i + 1], "chosen")));
    }
    PreferenceExample example;
    const std::string prompt = renderer_.render(record, messages, {}, true, is_not_learned, example.left_out).text;
    example.prompt = prompt;
    for (const auto& [column, turns] : {std::pair{"chosen", &chosen}, {"rejected", &rejected}}) {
      Json whole = messages;
      whole.push_back(turn("assistant", content_of(record, turns->back(), column)));
      LeftOutParts counted;  // what is left out of the prompt
      const auto is_answer = [&](size_t i) { return i + 1 == whole.size(); };
      const std::string text = renderer_.render(record, whole, {}, false, is_answer, counted).text;
      example.completions.push_back(text.substr(std::min(text.size(), prompt.size())));
    }
    return example;
  }

 private:
  const ChatRenderer& renderer_;
};

// zephyr.nectar: several answers with a rank; axolotl takes the two of the highest numbers.
class NectarFormat : public PreferenceFormat {
 public:
  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    Json answers = list_column(record, "answers", 2);
    const auto rank = [&](const Json& answer) {
      const Json& value = preference_field(record, answer, "rank", "answers");
      if (!value.is_number())
        throw input_error(record.where, "expected numbers as 'rank' in 'answers', got {}; correct the row",
                          value.type_name());
      return value.get<double>();
    };
    std::stable_sort(answers.begin(), answers.end(), [&](const Json& a, const Json& b) { return rank(a) < rank(b); });
    PreferenceExample example;
    example.prompt = fmt::format("<|system|>\n</s>\n<|user|>\n{}</s>\n<|assistant|>\n",
                                 given_text_of(record, required_field(record, "prompt", "type"), "prompt"));
    for (size_t behind = 1; behind <= 2; ++behind) {
      const Json& answer = answers[answers.size() - behind];
      example.completions.emplace_back(
          given_text_of(record, preference_field(record, answer, "answer", "answers"), "answers"));
    }
    return example;
  }
};

// bradley_terry.*: system, input, chosen and rejected as one conversation each.
class RewardFormat : public PreferenceFormat {
 public:
  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    const auto turn = [&](const char* role, const char* column) {
      return Json{{"role", role}, {"content", given_text_of(record, required_field(record, column, "type"), column)}};
    };
    PreferenceExample example;
    example.prompt = Json::array();
    if (record.fields.contains("system") && !record.fields["system"].is_null())
      example.prompt.push_back(turn("system", "system"));
    example.prompt.push_back(turn("user", "input"));
    for (const char* column : {"chosen", "rejected"})
      example.completions.push_back(Json::array({turn("assistant", column)}));
    return example;
  }
};

// As `type` spells them.
std::vector<std::string> type_names(Objective objective) {
  std::vector<std::string> names = {"passthrough"};
  if (objective == Objective::kReward) names.emplace_back("bradley_terry.chat_template");
  for (const TurnMarks& marks : kMarks) {
    for (const Variant& variant : variants_of(objective))
      names.push_back(fmt::format("{}.{}", marks.name, variant.name));
  }
  if (objective != Objective::kUnpaired) {
    names.insert(names.end(),
                 {"chat_template.default", "chat_template.argilla_chat", "chat_template.argilla", "zephyr.nectar"});
  }
  return names;
}

// `chatml` is `chatml.default`; a reward model's types may stand behind `bradley_terry.`.
std::string full_name(const DatasetConfig& config, Objective objective) {
  std::string_view name = config.type.name;
  constexpr std::string_view kReward = "bradley_terry.";
  if (objective == Objective::kReward && name.starts_with(kReward) && name != "bradley_terry.chat_template")
    name.remove_prefix(kReward.size());
  if (name == "passthrough.default") return "passthrough";
  for (const std::string_view brief : {"chatml", "llama3", "chat_template"}) {
    if (name == brief) return fmt::format("{}.default", name);
  }
  return std::string(name);
}

}  // namespace

void check_preference_type(const DatasetConfig& config, Objective objective, std::string_view where) {
  if (config.type.name.empty() || config.type.is_user_defined()) return;
  const std::vector<std::string> names = type_names(objective);
  if (std::find(names.begin(), names.end(), full_name(config, objective)) != names.end()) return;
  throw no_such_type(config, std::vector<std::string_view>(names.begin(), names.end()), where);
}

std::unique_ptr<PreferenceFormat> make_preference_format(const DatasetConfig& config, Objective objective,
                                                         const ChatRenderer& renderer) {
  if (config.type.is_user_defined()) return make_user_defined_format(config.type, objective);
  check_preference_type(config, objective, place_of(config));
  const std::string name = full_name(config, objective);
  if (name == "passthrough") return make_preference_columns(config);
  if (name == "bradley_terry.chat_template") return std::make_unique<RewardFormat>();
  if (name == "chat_template.default") return std::make_unique<TemplateFormat>(config, false, renderer);
  if (name == "chat_template.argilla_chat") return std::make_unique<TemplateFormat>(config, true, renderer);
  if (name == "chat_template.argilla") return std::make_unique<ArgillaFormat>(renderer);
  if (name == "zephyr.nectar") return std::make_unique<NectarFormat>();
  for (const TurnMarks& marks : kMarks) {
    for (const Variant& variant : variants_of(objective)) {
      if (name == fmt::format("{}.{}", marks.name, variant.name))
        return std::make_unique<MarkedFormat>(marks, variant, objective);
    }
  }
  SPILLWAY_CHECK(false, "a type without a format: {}", name);
}

}  // namespace spillway::data

#include "data/rows/conversation.h"

#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/rows/row_builder.h"
#include "text/jinja/unicode.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// Throws InputError for text that a split at tags would drop.
void refuse_dropped(const Record& record, std::string_view text, std::string_view tag) {
  if (text::jinja::strip(text, true, true, nullptr).empty()) return;
  throw input_error(record.where,
                    "expected nothing beside {} in an answer that split_thinking splits, got {}, which would be "
                    "dropped; move it into the thought or the answer, or remove split_thinking",
                    tag, quote(text));
}

// Moves the text between thinking tags to reasoning_content. Throws InputError for text before the tags, which axolotl
// drops, and for text around the tags of a solution.
void split_thinking(const Record& record, Json& message) {
  static constexpr std::array<std::pair<const char*, const char*>, 3> kThinking = {
      {{"<think>", "</think>"}, {"<reasoning>", "</reasoning>"}, {"<|begin_of_thought|>", "<|end_of_thought|>"}}};
  if (!message.contains("content") || !message["content"].is_string()) return;
  const std::string content = message["content"];
  for (const auto& [open, close] : kThinking) {
    const size_t begin = content.find(open), end = content.find(close);
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    refuse_dropped(record, std::string_view(content).substr(0, begin), open);
    const size_t from = begin + std::string_view(open).size();
    const std::string_view thought = std::string_view(content).substr(from, end - from);
    message["reasoning_content"] = std::string(text::jinja::strip(thought, true, true, nullptr));
    std::string_view rest = std::string_view(content).substr(end + std::string_view(close).size());
    rest = text::jinja::strip(rest, true, false, nullptr);
    const std::string_view open_answer = "<|begin_of_solution|>", close_answer = "<|end_of_solution|>";
    const size_t answer = rest.find(open_answer), answer_end = rest.find(close_answer);
    if (answer != std::string::npos && answer_end != std::string::npos && answer_end > answer) {
      refuse_dropped(record, rest.substr(0, answer), open_answer);
      refuse_dropped(record, rest.substr(answer_end + close_answer.size()), close_answer);
      rest = rest.substr(answer + open_answer.size(), answer_end - answer - open_answer.size());
      rest = text::jinja::strip(rest, true, true, nullptr);
    }
    message["content"] = std::string(rest);
    return;
  }
}

void read_json_text(const Record& record, Json& value, std::string_view name) {
  if (!value.is_string()) return;
  Json parsed = parse_json<Json>(value.get_ref<const std::string&>(), record.where);
  if (parsed.is_discarded())
    throw input_error(record.where, "expected JSON text in '{}', got {}; correct the row", name,
                      quote(value.get_ref<const std::string&>()));
  value = std::move(parsed);
}

// Parses `function.NAME` of each item if it is JSON text.
void read_function_field(const Record& record, Json& items, const char* name) {
  if (!items.is_array()) return;
  for (Json& item : items) {
    if (item.is_object() && item.contains("function") && item["function"].is_object() &&
        item["function"].contains(name)) {
      read_json_text(record, item["function"][name], name);
    }
  }
}

// Returns whether a part of a content is a target, by its own `train` or `weight`; nothing if it does not say.
std::optional<bool> own_training(const Record& record, const Json& part) {
  for (const char* name : {"train", "weight"}) {
    if (part.contains(name) && !part[name].is_null()) return truth_of(record, part[name], name);
  }
  return {};
}

// Joins a content that is a list of parts. If a part says whether it is a target, all parts are marked. Adds parts that
// are not text to `dropped`.
std::optional<std::vector<TrainedPart>> join_parts(const Record& record, Json& content,
                                                   std::vector<Turn::Dropped>& dropped) {
  if (!content.is_array()) return {};
  std::string text;
  std::vector<TrainedPart> trained;
  bool any = false;
  int64_t at = 0;
  for (const Json& part : content) {
    if (const auto kind = text::part_without_text(part)) {
      const bool has_name = part.is_object() && part.contains("type") && part["type"].is_string();
      dropped.push_back({*kind, has_name ? part["type"].get<std::string>() : part.type_name()});
    }
    if (!part.is_object() && !part.is_string()) continue;
    std::string piece = part.is_string() ? part.get<std::string>() : std::string();
    for (const char* name : {"text", "content", "value"}) {
      if (piece.empty() && part.contains(name) && part[name].is_string()) piece = part[name].get<std::string>();
    }
    const std::optional<bool> own = own_training(record, part);
    any |= own.has_value();
    const int64_t length = text::jinja::char_count(piece);
    if (length > 0) trained.push_back({at, at + length - 1, own.value_or(true)});
    at += length;
    text += piece;
  }
  content = text;
  return any ? std::optional(std::move(trained)) : std::nullopt;
}

// message_field_training_detail: a list of begin_offset, end_offset and train.
std::vector<TrainedPart> read_details(const Record& record, const Json& value, std::string_view name) {
  std::vector<TrainedPart> parts;
  const Json details = list_of(record, value, name);
  for (const Json& detail : details) {
    const bool fits = detail.is_object() && detail.contains("begin_offset") && detail.contains("end_offset") &&
                      detail.contains("train") && detail["begin_offset"].is_number_integer() &&
                      detail["end_offset"].is_number_integer();
    if (!fits)
      throw input_error(
          record.where,
          "expected begin_offset, end_offset (numbers) and train (true or false) in '{}', got {}; correct "
          "the row",
          name, quote(detail.dump(-1, ' ', false, Json::error_handler_t::replace)));
    parts.push_back({detail["begin_offset"], detail["end_offset"], truth_of(record, detail["train"], "train")});
  }
  return parts;
}

}  // namespace

ConversationReader::ConversationReader(const DatasetConfig& config) : config_(config) {
  mappings_ = config_.message_property_mappings;
  if (mappings_.empty()) {
    mappings_ = {{"role", "role"}, {"content", "content"}};
    if (!config_.field_thinking.empty()) mappings_["reasoning_content"] = config_.field_thinking;
  }
  for (const char* property : {"role", "content"}) mappings_.try_emplace(property, property);
  const bool asks = !config_.field_instruction.empty(), answers = !config_.field_output.empty();
  if (asks != answers || (!asks && !config_.field_input.empty()))
    throw input_error(place_of(config_), "expected field_instruction and field_output together, got {}; give both",
                      asks      ? "the first alone"
                      : answers ? "the second alone"
                                : "field_input alone");
  for (const auto& [role, names] : config_.roles) {
    for (const std::string& name : names) roles_[name] = role;
  }
}

std::string usual_role(const std::string& role) {
  return role == "human" ? "user" : role == "gpt" ? "assistant" : role;
}

bool has_no_weight(const Record& record, const Json& message) {
  const auto weight = message.find("weight");
  return weight != message.end() && !weight->is_null() && !truth_of(record, *weight, "weight");
}

std::string ConversationReader::mapped_role(const std::string& role) const {
  if (config_.roles.empty()) return usual_role(role);
  const auto found = roles_.find(role);
  return found == roles_.end() ? role : found->second;
}

Json ConversationReader::messages_of(const Record& record) const {
  const std::string &instruction = config_.field_instruction, &output = config_.field_output;
  if (instruction.empty())
    return list_of(record, required_field(record, config_.field_messages, "field_messages"), config_.field_messages);
  const auto text = [&](const std::string& name, const char* key) {
    return text_of(record, required_field(record, name, key), name);
  };
  std::string question = text(instruction, "field_instruction");
  const Json* const given = given_field(record, config_.field_input);
  const std::string input = given == nullptr ? "" : text_of(record, *given, config_.field_input);
  if (!input.empty()) question += (question.empty() ? "" : "\n") + input;
  const std::string &asks = mappings_.at("role"), &says = mappings_.at("content");
  return {{{asks, "user"}, {says, std::move(question)}}, {{asks, "assistant"}, {says, text(output, "field_output")}}};
}

Conversation ConversationReader::read(const Record& record) const {
  const Json messages = messages_of(record);
  if (messages.empty())
    throw input_error(record.where, "expected at least one message in '{}', got none; correct the row",
                      config_.field_messages);
  Conversation conversation;
  for (const Json& message : messages) {
    if (!message.is_object())
      throw input_error(record.where, "expected messages as objects in '{}', got {}; correct the row",
                        config_.field_messages, message.type_name());
    conversation.turns.push_back(read_turn(record, message));
  }
  const std::string system = config_.field_system.empty() ? "system" : config_.field_system;
  const auto given = record.fields.find(system);
  const bool is_text = given != record.fields.end() && given->is_string();
  // A column has something in every row, if only an empty text.
  const bool is_unsaid = !config_.field_instruction.empty() && is_text && given->get_ref<const std::string&>().empty();
  const bool is_there = given != record.fields.end() && !given->is_null() && !is_unsaid;
  if (conversation.turns.front().role() != "system" && is_there) {
    Turn turn;
    turn.message = {{"role", "system"}, {"content", *given}};
    conversation.turns.insert(conversation.turns.begin(), std::move(turn));
  }
  if (config_.drop_system_message && conversation.turns.front().role() == "system")
    conversation.turns.erase(conversation.turns.begin());
  if (conversation.turns.empty())
    throw input_error(record.where, "expected a message beside the system's, got none; correct the row");
  if (const Json* given_tools = given_field(record, config_.field_tools)) {
    Json tools = list_of(record, *given_tools, config_.field_tools);
    read_function_field(record, tools, "parameters");
    if (!tools.empty()) conversation.tools = std::move(tools);
  }
  return conversation;
}

Turn ConversationReader::read_turn(const Record& record, const Json& message) const {
  Turn turn;
  turn.message = mapped_message(record, message);
  const auto own = [&](const std::string& name) {
    return !name.empty() && message.contains(name) && !message[name].is_null();
  };
  const std::string& training = config_.message_field_training;
  if (own(training)) {
    turn.training = truth_of(record, message[training], training);
  } else if (has_no_weight(record, message)) {
    turn.training = false;
  }
  const std::string& detail = config_.message_field_training_detail;
  if (own(detail)) turn.parts = read_details(record, message[detail], detail);
  if (turn.message.contains("content")) {
    if (auto parts = join_parts(record, turn.message["content"], turn.dropped)) turn.parts = std::move(parts);
  }
  if (turn.message.contains("reasoning_content"))
    turn.reasoning_parts = join_parts(record, turn.message["reasoning_content"], turn.dropped);
  if (turn.parts && !turn.message["content"].is_string())
    throw input_error(record.where, "expected text as content where parts of it are targets, got {}; correct the row",
                      turn.message["content"].type_name());
  if (config_.split_thinking.value_or(false) && turn.role() == "assistant") split_thinking(record, turn.message);
  if (turn.message.contains("tool_calls")) read_function_field(record, turn.message["tool_calls"], "arguments");
  return turn;
}

Json ConversationReader::mapped_message(const Record& record, const Json& message) const {
  Json mapped = Json::object();
  std::set<std::string> taken;
  for (const auto& [property, source] : mappings_) {
    taken.insert(source);
    if (message.contains(source) && !message[source].is_null()) mapped[property] = message[source];
  }
  const auto is_same = [&](const std::string& name, const Json& one, const Json& other) {
    if (name != "role" || !one.is_string() || !other.is_string()) return one == other;
    return mapped_role(one.get<std::string>()) == mapped_role(other.get<std::string>());
  };
  // Further properties go to the template as they are.
  for (const auto& [name, value] : message.items()) {
    if (taken.contains(name) || value.is_null()) continue;
    const auto found = mapped.find(name);
    if (found != mapped.end() && !is_same(name, *found, value))
      throw input_error(record.where,
                        "expected messages that say their '{}' once, got another one in '{}' than in '{}', which "
                        "message_property_mappings names; map '{}' to '{}', or remove it from the rows",
                        name, name, mappings_.at(name), name, name);
    mapped[name] = value;
  }
  if (!mapped.contains("role") || !mapped["role"].is_string()) {
    std::string names;
    for (const auto& [name, value] : message.items()) names += (names.empty() ? "" : ", ") + quote(name);
    throw input_error(record.where, "expected messages with '{}', got one with {}; set message_property_mappings",
                      mappings_.at("role"), names);
  }
  mapped["role"] = mapped_role(mapped["role"].get<std::string>());
  return mapped;
}

}  // namespace spillway::data

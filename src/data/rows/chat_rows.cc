// Rows of conversations, as axolotl's type chat_template makes them: the whole conversation is rendered and encoded at
// once, and the turns of the roles to train are its targets. Where a turn lies is found by rendering the conversation
// again with the turn's content replaced: what differs is the turn, wherever the template put it and whatever it made
// of the others.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/rows/row_builder.h"
#include "data/rows/token_spans.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// A turn's end token counts as its own this far behind its content.
constexpr int64_t kEndDistance = 3;

// Two stand-ins without a common first or last character: one that happens to share an edge with the text around it
// would make the turn look smaller.
constexpr std::array<const char*, 2> kStandIns = {"[[dummy_message]]", "zzdummymessagezz"};

// Half-open, of bytes or of tokens.
struct Range {
  int64_t begin = 0, end = 0;
};

// The part of `whole` that differs from `other`.
template <typename Text>
Range difference(const Text& whole, const Text& other) {
  const auto limit = static_cast<int64_t>(std::min(whole.size(), other.size()));
  int64_t begin = 0;
  while (begin < limit && whole[static_cast<size_t>(begin)] == other[static_cast<size_t>(begin)]) ++begin;
  int64_t same = 0;
  while (same < limit - begin &&
         whole[whole.size() - 1 - static_cast<size_t>(same)] == other[other.size() - 1 - static_cast<size_t>(same)])
    ++same;
  return {begin, static_cast<int64_t>(whole.size()) - same};
}

struct Turn {
  Json message;
  std::optional<bool> training;  // the row's own word on it
};

struct Conversation {
  std::vector<Turn> turns;
  Json tools;
};

class ChatRows : public RowBuilder {
 public:
  ChatRows(const DatasetConfig& config, const RowOptions& options, const Tokenizer& tokenizer)
      : config_(config),
        options_(options),
        tokenizer_(tokenizer),
        template_(choose_chat_template(config, options, tokenizer)),
        variables_(template_variables(tokenizer)),
        train_on_eot_(config.train_on_eot.value_or(config.train_on_eos)) {
    if (!config.message_field_training_detail.empty()) {
      throw input_error("message_field_training_detail",
                        "expected no such key, got {}; training parts of a message is not supported yet",
                        quote(config.message_field_training_detail));
    }
    set_mappings();
    set_roles();
    set_end_tokens();
  }

  void build(const Record& record, std::vector<Row>& rows) const override {
    const Conversation conversation = read(record);
    const std::string text = render(record, conversation);
    Row row;
    row.input_ids = tokenizer_.encode(text, false);
    row.labels.assign(row.input_ids.size(), kIgnoredLabel);
    mark_targets(record, conversation, text, row);
    rows.push_back(std::move(row));
  }

 private:
  void set_mappings() {
    mappings_ = config_.message_property_mappings;
    if (mappings_.empty()) {
      mappings_ = {{"role", "role"}, {"content", "content"}};
      if (!config_.field_thinking.empty()) mappings_["reasoning_content"] = config_.field_thinking;
    }
    for (const char* property : {"role", "content"}) mappings_.try_emplace(property, property);
  }

  void set_roles() {
    roles_ = {{"human", "user"},    {"user", "user"},     {"assistant", "assistant"},
              {"gpt", "assistant"}, {"system", "system"}, {"tool", "tool"}};
    if (!config_.roles.empty()) roles_.clear();
    for (const auto& [role, names] : config_.roles) {
      for (const std::string& name : names) roles_[name] = role;
    }
    for (const std::string& role : config_.roles_to_train) roles_to_train_.insert(mapped_role(role));
  }

  void set_end_tokens() {
    const auto eos = tokenizer_.eos_id();
    if (options_.eot_tokens.empty() && eos) end_tokens_.insert(*eos);
    for (const std::string& token : options_.eot_tokens) {
      // A token that the template never writes cannot end a turn.
      if (template_.source().find(token) == std::string::npos) continue;
      const std::vector<int32_t> ids = tokenizer_.encode(token, false);
      if (ids.size() != 1)
        throw input_error("eot_tokens",
                          "expected tokens of the vocabulary, got {}, which takes {} of them; add it to the tokenizer",
                          quote(token), ids.size());
      end_tokens_.insert(ids.front());
    }
    if (eos && end_tokens_.contains(*eos) && train_on_eot_ != config_.train_on_eos) {
      throw input_error("train_on_eot",
                        "expected the value of train_on_eos, as the EOS token ends the turns, got another; set them "
                        "alike or name other eot_tokens");
    }
  }

  [[nodiscard]] std::string mapped_role(const std::string& role) const {
    const auto found = roles_.find(role);
    return found == roles_.end() ? role : found->second;
  }

  // --- the row's fields to a conversation ---
  [[nodiscard]] Conversation read(const Record& record) const {
    const Json messages =
        list_of(record, required_field(record, config_.field_messages, "field_messages"), config_.field_messages);
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
    if (role_of(conversation.turns.front()) != "system" && given != record.fields.end() && !given->is_null()) {
      conversation.turns.insert(conversation.turns.begin(),
                                Turn{{{"role", "system"}, {"content", *given}}, std::nullopt});
    }
    if (config_.drop_system_message && role_of(conversation.turns.front()) == "system")
      conversation.turns.erase(conversation.turns.begin());
    if (conversation.turns.empty())
      throw input_error(record.where, "expected a message beside the system's, got none; correct the row");
    if (record.fields.contains(config_.field_tools))
      conversation.tools = read_tools(record, record.fields[config_.field_tools]);
    return conversation;
  }

  [[nodiscard]] static std::string role_of(const Turn& turn) { return turn.message["role"].get<std::string>(); }

  [[nodiscard]] Turn read_turn(const Record& record, const Json& message) const {
    Turn turn;
    turn.message = Json::object();
    std::set<std::string> taken;
    for (const auto& [property, source] : mappings_) {
      taken.insert(source);
      if (message.contains(source) && !message[source].is_null()) turn.message[property] = message[source];
    }
    // Further properties go to the template as they are.
    for (const auto& [name, value] : message.items()) {
      if (!taken.contains(name) && !value.is_null()) turn.message[name] = value;
    }
    if (!turn.message.contains("role") || !turn.message["role"].is_string()) {
      std::string names;
      for (const auto& [name, value] : message.items()) names += (names.empty() ? "" : ", ") + quote(name);
      throw input_error(record.where, "expected messages with '{}', got one with {}; set message_property_mappings",
                        mappings_.at("role"), names);
    }
    turn.message["role"] = mapped_role(turn.message["role"].get<std::string>());
    const std::string& training = config_.message_field_training;
    if (!training.empty() && message.contains(training) && message[training].is_boolean())
      turn.training = message[training].get<bool>();
    for (const char* property : {"content", "reasoning_content"}) {
      if (turn.message.contains(property) && turn.message[property].is_array())
        turn.message[property] = join_parts(record, turn.message[property]);
    }
    if (config_.split_thinking.value_or(false) && turn.message["role"] == "assistant") split_thinking(turn.message);
    if (turn.message.contains("tool_calls")) read_arguments(record, turn.message["tool_calls"]);
    return turn;
  }

  [[nodiscard]] static std::string join_parts(const Record& record, const Json& parts) {
    std::string text;
    for (const Json& part : parts) {
      if (!part.is_object()) continue;
      if (part.contains("train") || part.contains("weight")) {
        throw input_error(record.where,
                          "expected content parts without 'train' or 'weight', got one with it; training parts of a "
                          "message is not supported yet");
      }
      for (const char* name : {"text", "content", "value"}) {
        if (!part.contains(name) || !part[name].is_string() || part[name].get_ref<const std::string&>().empty())
          continue;
        text += part[name].get_ref<const std::string&>();
        break;
      }
    }
    return text;
  }

  // Moves what stands between thinking tags to reasoning_content.
  static void split_thinking(Json& message) {
    static constexpr std::array<std::pair<const char*, const char*>, 3> kThinking = {
        {{"<think>", "</think>"}, {"<reasoning>", "</reasoning>"}, {"<|begin_of_thought|>", "<|end_of_thought|>"}}};
    if (!message.contains("content") || !message["content"].is_string()) return;
    const auto trim = [](std::string text, bool end) {
      static constexpr const char* kSpace = " \t\n\r\f\v";
      text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
      if (end) text.erase(text.find_last_not_of(kSpace) + 1);
      return text;
    };
    const std::string content = message["content"];
    for (const auto& [open, close] : kThinking) {
      const size_t begin = content.find(open), end = content.find(close);
      if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
      const size_t from = begin + std::string_view(open).size();
      message["reasoning_content"] = trim(content.substr(from, end - from), true);
      std::string rest = trim(content.substr(end + std::string_view(close).size()), false);
      const std::string_view open_answer = "<|begin_of_solution|>", close_answer = "<|end_of_solution|>";
      const size_t answer = rest.find(open_answer), answer_end = rest.find(close_answer);
      if (answer != std::string::npos && answer_end != std::string::npos && answer_end > answer) {
        rest = trim(rest.substr(answer + open_answer.size(), answer_end - answer - open_answer.size()), true);
      }
      message["content"] = rest;
      return;
    }
  }

  static void read_json_text(const Record& record, Json& value, std::string_view name) {
    if (!value.is_string()) return;
    Json parsed = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
    if (parsed.is_discarded())
      throw input_error(record.where, "expected JSON text in '{}', got {}; correct the row", name,
                        quote(value.get_ref<const std::string&>()));
    value = std::move(parsed);
  }
  static void read_arguments(const Record& record, Json& calls) {
    if (!calls.is_array()) return;
    for (Json& call : calls) {
      if (call.is_object() && call.contains("function") && call["function"].is_object() &&
          call["function"].contains("arguments")) {
        read_json_text(record, call["function"]["arguments"], "arguments");
      }
    }
  }
  [[nodiscard]] static Json read_tools(const Record& record, const Json& value) {
    Json tools = list_of(record, value, "tools");
    for (Json& tool : tools) {
      if (tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
          tool["function"].contains("parameters")) {
        read_json_text(record, tool["function"]["parameters"], "parameters");
      }
    }
    return tools.empty() ? Json() : tools;
  }

  // --- a conversation to targets ---
  [[nodiscard]] std::string render(const Record& record, const Conversation& conversation) const {
    ChatInput input;
    input.messages = Json::array();
    for (const Turn& turn : conversation.turns) input.messages.push_back(turn.message);
    input.tools = conversation.tools;
    input.variables = variables_;
    try {
      return render_chat(template_, input).text;
    } catch (const InputError& error) {
      throw input_error(
          record.where,
          "expected a conversation that the template takes, got: {}; correct the row or choose another chat_template",
          error.what());
    }
  }

  [[nodiscard]] bool trains(const Turn& turn) const {
    return turn.training.value_or(options_.train_on_inputs || roles_to_train_.contains(role_of(turn)));
  }

  void mark_targets(const Record& record, const Conversation& conversation, const std::string& text, Row& row) const {
    const auto spans = token_spans(tokenizer_, text, row.input_ids);
    const bool all_ends = config_.train_on_eos == TrainOnEos::kAll || train_on_eot_ == TrainOnEos::kAll;
    int64_t last_eot = -1, last_eos = -1;
    for (size_t i = 0; i < conversation.turns.size(); ++i) {
      const bool train = trains(conversation.turns[i]);
      if (!train && !all_ends) continue;
      const Range turn = spans ? find_by_text(record, conversation, i, text, *spans)
                               : find_by_tokens(record, conversation, i, row.input_ids);
      if (turn.begin >= turn.end) continue;  // the template shows nothing of it
      if (train) copy_labels(row, turn.begin, turn.end);
      mark_end(row, turn.end, end_tokens_, train_on_eot_, train, last_eot);
      if (tokenizer_.eos_id()) mark_end(row, turn.end, {*tokenizer_.eos_id()}, config_.train_on_eos, train, last_eos);
    }
    if (train_on_eot_ == TrainOnEos::kLast && last_eot >= 0) copy_labels(row, last_eot, last_eot + 1);
    if (config_.train_on_eos == TrainOnEos::kLast && last_eos >= 0) copy_labels(row, last_eos, last_eos + 1);
  }

  static void copy_labels(Row& row, int64_t begin, int64_t end) {
    std::copy(row.input_ids.begin() + begin, row.input_ids.begin() + end, row.labels.begin() + begin);
  }

  static void mark_end(Row& row, int64_t from, const std::set<int32_t>& tokens, TrainOnEos when, bool train,
                       int64_t& last) {
    const auto size = static_cast<int64_t>(row.input_ids.size());
    for (int64_t at = from; at < std::min(size, from + kEndDistance + 1); ++at) {
      if (!tokens.contains(row.input_ids[static_cast<size_t>(at)])) continue;
      last = at;
      if (when == TrainOnEos::kAll || (when == TrainOnEos::kTurn && train)) copy_labels(row, at, at + 1);
      return;
    }
  }

  [[nodiscard]] std::string render_with_stand_in(const Record& record, const Conversation& conversation, size_t index,
                                                 const char* stand_in) const {
    Conversation changed = conversation;
    changed.turns[index].message = {{"role", role_of(conversation.turns[index])}, {"content", stand_in}};
    return render(record, changed);
  }

  using Spans = std::vector<std::pair<int64_t, int64_t>>;
  [[nodiscard]] Range find_by_text(const Record& record, const Conversation& conversation, size_t index,
                                   const std::string& text, const Spans& spans) const {
    Range bytes{static_cast<int64_t>(text.size()), 0};
    for (const char* stand_in : kStandIns) {
      const Range one = difference(text, render_with_stand_in(record, conversation, index, stand_in));
      bytes = {std::min(bytes.begin, one.begin), std::max(bytes.end, one.end)};
    }
    if (bytes.begin >= bytes.end) return {};
    const auto first =
        std::partition_point(spans.begin(), spans.end(), [&](const auto& span) { return span.second <= bytes.begin; });
    const auto last =
        std::partition_point(spans.begin(), spans.end(), [&](const auto& span) { return span.first < bytes.end; });
    return {first - spans.begin(), last - spans.begin()};
  }

  // For tokenizers whose tokens have no certain place in the text.
  [[nodiscard]] Range find_by_tokens(const Record& record, const Conversation& conversation, size_t index,
                                     const std::vector<int32_t>& ids) const {
    Range tokens{static_cast<int64_t>(ids.size()), 0};
    for (const char* stand_in : kStandIns) {
      const Range one =
          difference(ids, tokenizer_.encode(render_with_stand_in(record, conversation, index, stand_in), false));
      tokens = {std::min(tokens.begin, one.begin), std::max(tokens.end, one.end)};
    }
    return tokens;
  }

  DatasetConfig config_;
  RowOptions options_;
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  Json variables_;
  TrainOnEos train_on_eot_;
  std::map<std::string, std::string> mappings_;  // the template's property -> the row's
  std::map<std::string, std::string> roles_;     // the row's role -> the template's
  std::set<std::string> roles_to_train_;
  std::set<int32_t> end_tokens_;
};

}  // namespace

std::unique_ptr<RowBuilder> make_chat_rows(const DatasetConfig& config, const RowOptions& options,
                                           const Tokenizer& tokenizer) {
  if (config.type.name != "chat_template" && config.type.name != "chat_template.default") return nullptr;
  return std::make_unique<ChatRows>(config, options, tokenizer);
}

}  // namespace spillway::data

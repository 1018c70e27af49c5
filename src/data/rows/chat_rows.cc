// Rows of conversations, as axolotl's type chat_template makes them: the whole conversation is rendered and encoded at
// once, and the turns of the roles to train are its targets. Where a turn lies is found by rendering the conversation
// again with turns replaced: what differs is the turn, wherever the template put it and whatever it made of the others.
// The token that ends an answer is a target, too: where the config names none (eot_tokens), the special token that the
// template writes behind it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/text.h"
#include "data/rows/answer_ends.h"
#include "data/rows/answer_space.h"
#include "data/rows/chat_renderer.h"
#include "data/rows/conversation.h"
#include "data/rows/replaced_places.h"
#include "data/rows/row_builder.h"
#include "data/rows/token_spans.h"
#include "data/rows/trained_parts.h"
#include "text/left_out_warnings.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// The largest distance of a turn's end token from its content.
constexpr int64_t kEndDistance = 3;

// The part of a turn that a stand-in replaces.
enum class Replaced { kTurn, kContent, kReasoning };

class ChatRows : public RowBuilder {
 public:
  ChatRows(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
      : config_(config),
        options_(options),
        tokenizer_(tokenizer),
        reader_(config),
        templates_(choose_chat_template(config, options, tokenizer)),
        variables_(template_variables(tokenizer, options.chat_template_kwargs)),
        train_on_eot_(config.train_on_eot.value_or(config.train_on_eos)),
        ends_(tokenizer) {
    for (const std::string& role : config_.roles_to_train) roles_to_train_.insert(reader_.mapped_role(role));
    if (tokenizer.eos_id()) eos_.insert(*tokenizer.eos_id());
    if (options_.eot_tokens) set_end_tokens(*options_.eot_tokens);
    before_answers_ = white_space_before_answers(templates_.usual, variables_, options_.now, tokenizer);
  }

  void build(const Record& record, std::vector<Row>& rows) const override {
    const Conversation conversation = reader_.read(record);
    const std::string text = render(record, conversation);
    Row row;
    row.input_ids = tokenizer_.encode(text, false);
    row.labels.assign(row.input_ids.size(), kIgnoredLabel);
    mark_targets(record, conversation, text, row);
    take_left_out_parts(record, conversation, text, row);
    rows.push_back(std::move(row));
  }

 private:
  static bool writes(const text::ChatTemplate& chat_template, const std::string& token) {
    return chat_template.source().find(token) != std::string::npos;
  }

  void set_end_tokens(const std::vector<std::string>& names) {
    for (const std::string& token : names) {
      // A token that the template never writes cannot end a turn; EOS may be written through its variable.
      const bool is_eos = names.size() == 1 && token == tokenizer_.eos_token();
      if (!is_eos && !writes(templates_.usual, token) &&
          !(templates_.tool_use && writes(*templates_.tool_use, token))) {
        if (token != tokenizer_.eos_token())
          log_warning("{}: eot_tokens has {}, which the chat template does not write: no turn ends with it",
                      place_of(config_), quote(token));
        continue;
      }
      const std::vector<int32_t> ids = tokenizer_.encode(token, false);
      if (ids.size() != 1)
        throw input_error("eot_tokens",
                          "expected tokens of the vocabulary, got {}, which takes {} of them; add it to the tokenizer",
                          quote(token), ids.size());
      end_tokens_.insert(ids.front());
    }
    check_agreement(end_tokens_);
  }

  // Throws InputError if two keys contradict each other about a token.
  void check_agreement(const std::set<int32_t>& end_tokens) const {
    const auto eos = tokenizer_.eos_id();
    if (!eos || !end_tokens.contains(*eos) || train_on_eot_ == config_.train_on_eos) return;
    throw input_error("train_on_eot",
                      "expected the value of train_on_eos, as the EOS token ends the turns, got another; set them "
                      "alike or name other eot_tokens");
  }

  [[nodiscard]] text::ChatInput input_of(const Conversation& conversation) const {
    text::ChatInput input;
    input.messages = Json::array();
    for (const Turn& turn : conversation.turns) input.messages.push_back(turn.message);
    input.tools = conversation.tools;
    input.variables = variables_;
    return input;
  }

  [[nodiscard]] std::string render(const Record& record, const Conversation& conversation) const {
    const text::ChatInput input = input_of(conversation);
    try {
      return text::render_chat(templates_.for_tools(input.tools), input, options_.now).text;
    } catch (const InputError& error) {
      throw not_taken(record, input.messages, error);
    }
  }

  // Records the parts of the conversation that are not in the row's text.
  void take_left_out_parts(const Record& record, const Conversation& conversation, const std::string& text,
                           Row& row) const {
    const text::ChatInput input = input_of(conversation);
    std::vector<text::LeftOut> parts = text::left_out(templates_.for_tools(input.tools), input, text, options_.now);
    for (size_t i = 0; i < conversation.turns.size(); ++i) {
      for (const Turn::Dropped& dropped : conversation.turns[i].dropped) {
        if (trains(conversation.turns[i]) && dropped.part != text::MessagePart::kMedia)
          throw input_error(record.where,
                            "expected text alone in {}, which is learned, got a part of type {}; write it as text, "
                            "reasoning_content or tool_calls, or remove it",
                            text::message_name(input.messages, i), quote(dropped.type));
        parts.push_back({i, dropped.part, false});
      }
    }
    take_left_out(
        record, input, parts, [&](size_t i) { return trains(conversation.turns[i]); }, row.left_out);
  }

  [[nodiscard]] bool trains(const Turn& turn) const {
    if (turn.training) return *turn.training;
    if (turn.parts || turn.reasoning_parts) {
      return (turn.parts && !turn.parts->empty()) || (turn.reasoning_parts && !turn.reasoning_parts->empty());
    }
    return options_.train_on_inputs || roles_to_train_.contains(turn.role());
  }

  // The place of a turn in the row's tokens; if its reasoning has parts, also the place of that.
  struct TurnPlace {
    Range turn, reasoning;
  };

  [[nodiscard]] static bool has_parts(const Turn& turn) {
    return (turn.parts && !turn.parts->empty()) || turn.reasoning_parts;
  }
  [[nodiscard]] static bool has_reasoning(const Turn& turn) { return turn.message.contains("reasoning_content"); }
  [[nodiscard]] bool marks_all_ends() const {
    return config_.train_on_eos == TrainOnEos::kAll || train_on_eot_ == TrainOnEos::kAll;
  }

  void mark_targets(const Record& record, const Conversation& conversation, const std::string& text, Row& row) const {
    const std::vector<TurnPlace> places = find_turns(record, conversation, text, row.input_ids);
    const std::set<int32_t> end_tokens =
        options_.eot_tokens ? end_tokens_ : ends_of_answers(record, conversation, places, row);
    std::vector<MarkedTurn> marked;
    for (size_t i = 0; i < conversation.turns.size(); ++i) {
      const Turn& turn = conversation.turns[i];
      const bool train = trains(turn);
      if (!train && !marks_all_ends()) continue;
      const Range range = places[i].turn;
      if (train) mark_content(turn, places[i], row);
      if (range.begin >= range.end) continue;  // the template shows nothing of it
      marked.push_back({&turn, range.end, end_behind(row, range.end, end_tokens), end_behind(row, range.end, eos_)});
    }
    mark_ends(marked, row, &MarkedTurn::eot, train_on_eot_);
    mark_ends(marked, row, &MarkedTurn::eos, config_.train_on_eos);
    for (const MarkedTurn& turn : marked) finish_answer(turn, row);
  }

  void mark_content(const Turn& turn, const TurnPlace& place, Row& row) const {
    if (turn.parts && !turn.parts->empty()) {
      mark_parts(turn.message["content"], *turn.parts, place.turn, row);
    } else if (!turn.reasoning_parts && place.turn.begin < place.turn.end) {
      copy_labels(row, place.turn.begin, place.turn.end);
    }
    if (turn.reasoning_parts && has_reasoning(turn))
      mark_parts(turn.message["reasoning_content"], *turn.reasoning_parts, place.reasoning, row);
  }

  // The places of the tokens that end a turn whose content ends before `end`; -1 for none.
  struct MarkedTurn {
    const Turn* turn;
    int64_t end, eot, eos;
  };

  void mark_ends(const std::vector<MarkedTurn>& turns, Row& row, int64_t MarkedTurn::*place, TrainOnEos when) const {
    int64_t last = -1;
    for (const MarkedTurn& turn : turns) {
      const int64_t at = turn.*place;
      if (at < 0) continue;
      last = at;
      if (when == TrainOnEos::kAll || (when == TrainOnEos::kTurn && trains(*turn.turn))) copy_labels(row, at, at + 1);
    }
    if (when == TrainOnEos::kLast && last >= 0) copy_labels(row, last, last + 1);
  }

  [[nodiscard]] bool is_answer(const Turn& turn) const { return trains(turn) && is_answering_role(turn.role()); }

  // Records which tokens end an answer, and makes targets of the text that the template writes between it and these:
  // the model must write that, too, before it can end.
  void finish_answer(const MarkedTurn& turn, Row& row) const {
    if (!is_answer(*turn.turn)) return;
    row.ends.has_answer = true;
    const auto is_learned = [&](int64_t at) { return at >= 0 && nth(row.labels, at) != kIgnoredLabel; };
    const bool has_eot = is_learned(turn.eot), has_eos = is_learned(turn.eos);
    if (!options_.eot_tokens && !has_parts(*turn.turn) && (has_eot || has_eos))
      copy_labels(row, turn.end, has_eot ? turn.eot : turn.eos);
    if (has_eos) add_end(row, nth(row.input_ids, turn.eos));
    // A mark before an EOS that does not end generation is part of the template.
    if (has_eot && (!has_eos || ends_.stops(nth(row.input_ids, turn.eot)))) add_end(row, nth(row.input_ids, turn.eot));
  }

  static void add_end(Row& row, int32_t id) {
    if (std::find(row.ends.ids.begin(), row.ends.ids.end(), id) == row.ends.ids.end()) row.ends.ids.push_back(id);
  }

  // Returns the tokens that end answers of the conversation, where the config names none: the mark right behind one
  // which stops, or which also closes the conversation where that turn is the last. A mark that only begins the next
  // turn is none.
  [[nodiscard]] std::set<int32_t> ends_of_answers(const Record& record, const Conversation& conversation,
                                                  const std::vector<TurnPlace>& places, const Row& row) const {
    std::set<int32_t> found, others;
    for (size_t i = conversation.turns.size(); i-- > 0;) {
      const Range range = places[i].turn;
      if (range.begin >= range.end || !is_answer(conversation.turns[i])) continue;
      const auto at = ends_.mark_behind(row.input_ids, range.end);
      if (!at || *at > range.end + kEndDistance) continue;
      const int32_t id = nth(row.input_ids, *at);
      if (found.contains(id) || others.contains(id)) continue;
      (ends_.stops(id) || closes(record, conversation, i, id) ? found : others).insert(id);
    }
    check_agreement(found);
    return found;
  }

  // Returns true where a conversation that ends with this turn closes with the token, perhaps among others.
  [[nodiscard]] bool closes(const Record& record, const Conversation& conversation, size_t turn, int32_t id) const {
    if (turn + 1 == conversation.turns.size()) return true;
    Conversation cut = conversation;
    cut.turns.erase(cut.turns.begin() + static_cast<std::ptrdiff_t>(turn) + 1, cut.turns.end());
    try {
      const std::vector<int32_t> marks = ends_.closing_marks(tokenizer_.encode(render(record, cut), false));
      return std::find(marks.begin(), marks.end(), id) != marks.end();
    } catch (const InputError&) {
      return false;  // the template wants another turn behind it
    }
  }

  // Finds the places of the turns that mark_targets() asks about.
  [[nodiscard]] std::vector<TurnPlace> find_turns(const Record& record, const Conversation& conversation,
                                                  const std::string& text, const std::vector<int32_t>& ids) const {
    std::vector<size_t> whole, contents, reasonings;
    for (size_t i = 0; i < conversation.turns.size(); ++i) {
      const Turn& turn = conversation.turns[i];
      const bool train = trains(turn);
      if (!train && !marks_all_ends()) continue;
      (has_parts(turn) && has_reasoning(turn) ? contents : whole).push_back(i);
      if (train && turn.reasoning_parts && has_reasoning(turn)) reasonings.push_back(i);
    }
    std::vector<TurnPlace> places(conversation.turns.size());
    const auto spans = token_spans(tokenizer_, text, ids);
    const auto find = [&](const std::vector<size_t>& turns, Replaced replaced, Range TurnPlace::*place) {
      const std::vector<Range> ranges = spans ? find_by_text({record, conversation, turns, replaced}, text, *spans)
                                              : find_by_tokens({record, conversation, turns, replaced}, ids);
      for (size_t i = 0; i < turns.size(); ++i) places[turns[i]].*place = ranges[i];
    };
    find(whole, Replaced::kTurn, &TurnPlace::turn);
    find(contents, Replaced::kContent, &TurnPlace::turn);
    find(reasonings, Replaced::kReasoning, &TurnPlace::reasoning);
    return places;
  }

  // The places of the parts are those in the text's own tokens, offset by the begin of the text in the row.
  void mark_parts(const Json& text, const std::vector<TrainedPart>& parts, const Range& range, Row& row) const {
    if (range.begin >= range.end) return;
    const std::vector<bool> trained = trained_tokens(tokenizer_, text.get_ref<const std::string&>(), parts);
    for (size_t i = 0; i < trained.size(); ++i) {
      const int64_t at = range.begin + static_cast<int64_t>(i);
      if (trained[i] && at < std::ssize(row.input_ids)) copy_labels(row, at, at + 1);
    }
  }

  static void copy_labels(Row& row, int64_t begin, int64_t end) {
    std::copy(row.input_ids.begin() + begin, row.input_ids.begin() + end, row.labels.begin() + begin);
  }

  // Returns where the first of the tokens stands, near the end of a turn's content; -1: nowhere.
  static int64_t end_behind(const Row& row, int64_t from, const std::set<int32_t>& tokens) {
    const auto size = static_cast<int64_t>(row.input_ids.size());
    for (int64_t at = from; at < std::min(size, from + kEndDistance + 1); ++at) {
      if (tokens.contains(nth(row.input_ids, at))) return at;
    }
    return -1;
  }

  // The object of a search: the parts `replaced` of these turns.
  struct Wanted {
    const Record& record;
    const Conversation& conversation;
    const std::vector<size_t>& turns;
    Replaced replaced;
  };

  // Renders the conversation with what is wanted of `some` (into `turns`) replaced.
  [[nodiscard]] std::string render_replaced(const Wanted& wanted, std::span<const size_t> some,
                                            std::span<const std::string> stand_ins) const {
    Conversation changed = wanted.conversation;
    for (size_t i = 0; i < some.size(); ++i) {
      const size_t turn = wanted.turns[some[i]];
      changed.turns[turn].message =
          with_stand_in(wanted.conversation.turns[turn].message, wanted.replaced, stand_ins[i]);
    }
    return render(wanted.record, changed);
  }

  static Json with_stand_in(const Json& message, Replaced replaced, const std::string& stand_in) {
    Json dummy = {{"role", message["role"]}, {"content", stand_in}};
    if (replaced == Replaced::kReasoning && message.contains("content")) dummy["content"] = message["content"];
    if (replaced == Replaced::kReasoning) dummy["reasoning_content"] = stand_in;
    if (replaced == Replaced::kContent && message.contains("reasoning_content"))
      dummy["reasoning_content"] = message["reasoning_content"];
    return dummy;
  }

  using Spans = std::vector<std::pair<int64_t, int64_t>>;
  [[nodiscard]] std::vector<Range> find_by_text(const Wanted& wanted, const std::string& text,
                                                const Spans& spans) const {
    std::vector<Range> ranges = find_replaced(
        text, wanted.turns.size(), [&](std::span<const size_t> some, std::span<const std::string> stand_ins) {
          return render_replaced(wanted, some, stand_ins);
        });
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (wanted.replaced == Replaced::kTurn)
        add_white_space(nth(wanted.conversation.turns, wanted.turns[i]), text, ranges[i]);
      ranges[i] = tokens_of(ranges[i], spans);
    }
    return ranges;
  }

  // Adds the white space before an answer to its bytes. Parts of a content are counted from the content's own begin.
  void add_white_space(const Turn& turn, std::string_view text, Range& bytes) const {
    if (bytes.begin >= bytes.end || has_parts(turn) || !is_answering_role(turn.role())) return;
    if (text.substr(0, static_cast<size_t>(bytes.begin)).ends_with(before_answers_))
      bytes.begin -= std::ssize(before_answers_);
  }

  static Range tokens_of(const Range& bytes, const Spans& spans) {
    if (bytes.begin >= bytes.end) return {};
    const auto first =
        std::partition_point(spans.begin(), spans.end(), [&](const auto& span) { return span.second <= bytes.begin; });
    const auto last =
        std::partition_point(spans.begin(), spans.end(), [&](const auto& span) { return span.first < bytes.end; });
    return {first - spans.begin(), last - spans.begin()};
  }

  // For tokenizers whose tokens have no certain place in the text: one turn at a time.
  [[nodiscard]] std::vector<Range> find_by_tokens(const Wanted& wanted, const std::vector<int32_t>& ids) const {
    std::vector<Range> ranges;
    for (size_t i = 0; i < wanted.turns.size(); ++i) {
      ranges.push_back(difference_with_stand_ins(ids, [&](const char* stand_in) {
        return tokenizer_.encode(render_replaced(wanted, std::span(&i, 1), std::array{std::string(stand_in)}), false);
      }));
    }
    return ranges;
  }

  DatasetConfig config_;
  RowOptions options_;
  const text::Tokenizer& tokenizer_;
  ConversationReader reader_;
  text::ChatTemplates templates_;
  Json variables_;
  TrainOnEos train_on_eot_;
  std::set<std::string> roles_to_train_;
  AnswerEnds ends_;
  std::set<int32_t> end_tokens_;  // that the config names
  std::set<int32_t> eos_;
  std::string before_answers_;  // white_space_before_answers()
};

}  // namespace

bool is_chat_rows_type(std::string_view type) {
  return type == "chat_template" || type == "chat_template.default" || type == "sharegpt" ||
         type.starts_with("sharegpt.");
}

std::unique_ptr<RowBuilder> make_chat_rows(const DatasetConfig& config, const RowOptions& options,
                                           const text::Tokenizer& tokenizer) {
  if (!is_chat_rows_type(config.type.name)) return nullptr;
  if (config.type.name.starts_with("chat_template")) return std::make_unique<ChatRows>(config, options, tokenizer);
  // axolotl's former name for conversations of `from` and `value`.
  DatasetConfig renamed = config;
  if (config.field_messages == "messages") renamed.field_messages = "conversations";
  if (config.message_property_mappings.empty())
    renamed.message_property_mappings = {{"role", "from"}, {"content", "value"}};
  return std::make_unique<ChatRows>(renamed, options, tokenizer);
}

}  // namespace spillway::data

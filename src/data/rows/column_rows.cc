// Rows by TRL's rules, where a dataset says no type: the columns decide. input_ids: tokenised; prompt and completion:
// the completion is learned; messages: a conversation; text (dataset_text_field): all of it is learned. Conversations
// may stand in prompt and completion, too, or in `conversations` with from and value. A message of weight 0 is not
// learned.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "data/rows/answer_ends.h"
#include "data/rows/chat_renderer.h"
#include "data/rows/conversation.h"
#include "data/rows/replaced_places.h"
#include "data/rows/row_builder.h"
#include "data/rows/token_spans.h"
#include "text/jinja/unicode.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

class ColumnRows : public RowBuilder {
 public:
  ColumnRows(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer), renderer_(config, options, tokenizer), ends_(tokenizer) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const auto has = [&](const std::string& name) { return given_field(record, name) != nullptr; };
    if (has("input_ids")) {
      refuse_assistant_only(record, "token ids");
      rows.push_back(tokenized_row(record, options_, tokenizer_));
    } else if (has("prompt") && has("completion")) {
      if (has("label")) refuse_judged(record);
      const bool is_text = record.fields["prompt"].is_string();
      if (is_text) refuse_assistant_only(record, "text");
      rows.push_back(is_text ? text_pair(record) : chat_pair(record));
    } else if (has("messages") || has("conversations")) {
      const char* name = has("messages") ? "messages" : "conversations";
      refuse_completions_only(record, name);
      rows.push_back(rendered_row(record, messages_of(record, record.fields[name], name), 0));
    } else {
      if (has("chosen") && has("rejected") && !has(options_.dataset_text_field)) {
        throw input_error(record.where,
                          "expected rows to learn from, got chosen and rejected, which are preferences; set rl: dpo "
                          "(or orpo, simpo, ...), or reward_model: true");
      }
      refuse_assistant_only(record, "text");
      const std::string text =
          text_of(record, required_field(record, options_.dataset_text_field, "dataset_text_field"),
                  options_.dataset_text_field);
      rows.push_back(learn_all(tokenizer_.encode(with_eos(text), true)));
    }
  }

 private:
  // Throws InputError for rows of KTO: trained as text, the undesirable completions would be learned, too. CSV files
  // have the label as text.
  static void refuse_judged(const Record& record) {
    const Json& label = record.fields["label"];
    const std::string word = label.is_string() ? text::jinja::lower(label.get_ref<const std::string&>()) : "";
    if (!label.is_boolean() && word != "true" && word != "false") return;
    throw input_error(record.where,
                      "expected rows to learn from, got prompt, completion and a label of true or false, which says "
                      "whether the completion is good; set rl: kto, or remove the column");
  }

  // Throws InputError for conversations whose prompts are not to be learned: TRL has no rule for that, and all would
  // be.
  void refuse_completions_only(const Record& record, const char* name) const {
    if (options_.completion_only_loss != true || options_.assistant_only_loss) return;
    throw input_error(
        record.where,
        "expected rows of prompt and completion beside {}, got a conversation in '{}', of which all is "
        "learned without a type; set type: chat_template, or assistant_only_loss: true, or remove the key",
        "train_on_inputs: false (completion_only_loss: true)", name);
  }

  // Throws InputError for assistant_only_loss, which TRL has for conversations only.
  void refuse_assistant_only(const Record& record, const char* got) const {
    if (options_.assistant_only_loss)
      throw input_error(record.where,
                        "expected a conversation in 'messages' for assistant_only_loss, got {}; remove "
                        "assistant_only_loss",
                        got);
  }

  [[nodiscard]] std::string with_eos(const std::string& text) const {
    const std::string eos = tokenizer_.eos_token();
    return text.ends_with(eos) ? text : text + eos;
  }

  [[nodiscard]] bool completion_only() const { return options_.completion_only_loss.value_or(true); }

  // Removes the labels of the common start of both encodings, and records whether that is less than the prompt.
  void ignore_prompt(Row& row, const std::vector<int32_t>& prompt) const {
    if (!completion_only()) return;
    const auto shared =
        std::mismatch(prompt.begin(), prompt.end(), row.input_ids.begin(), row.input_ids.end()).first - prompt.begin();
    std::fill_n(row.labels.begin(), shared, kIgnoredLabel);
    row.joins_prompt = shared < std::ssize(prompt);
  }

  [[nodiscard]] Row text_pair(const Record& record) const {
    const std::string prompt = text_of(record, record.fields["prompt"], "prompt");
    const std::string completion = with_eos(text_of(record, record.fields["completion"], "completion"));
    Row row = learn_all(tokenizer_.encode(prompt + completion, true));
    ignore_prompt(row, tokenizer_.encode(prompt, true));
    return row;
  }

  [[nodiscard]] Row chat_pair(const Record& record) const {
    const Json prompt = messages_of(record, record.fields["prompt"], "prompt");
    Json messages = prompt;
    for (const Json& message : messages_of(record, record.fields["completion"], "completion"))
      messages.push_back(message);
    Row row = rendered_row(record, messages, completion_only() ? prompt.size() : 0);
    ignore_prompt(row, tokenizer_.encode(render(record, prompt, true).text, false));
    return row;
  }

  [[nodiscard]] text::ChatTemplate::Rendered render(const Record& record, const Json& messages,
                                                    bool add_generation_prompt) const {
    return renderer_.render(record, messages, tools_of(record), add_generation_prompt);
  }

  // Returns the row of a conversation. Messages before `first_learned` are not learned, and instructions never are: a
  // template may leave these out.
  [[nodiscard]] Row rendered_row(const Record& record, const Json& messages, size_t first_learned) const {
    const auto is_learned = [&](size_t i) {
      const Json role = messages[i].value("role", Json());
      const bool is_instruction = role == "system" || role == "developer";
      const bool may_be_learned = options_.assistant_only_loss ? role == "assistant" : !is_instruction;
      return i >= first_learned && may_be_learned && !has_no_weight(record, messages[i]);
    };
    LeftOutParts left_out;
    const text::ChatTemplate::Rendered rendered =
        renderer_.render(record, messages, tools_of(record), false, is_learned, left_out);
    Row row = learn_all(tokenizer_.encode(rendered.text, false));
    row.left_out = left_out;
    const bool ends_answer = !messages.empty() && is_answer(messages.back());
    std::vector<int32_t> ends;
    if (ends_answer) ends = ends_.closing_ends(row.input_ids);
    if (options_.assistant_only_loss) keep_answers(record, rendered, ends, row);
    ignore_weightless(record, messages, rendered.text, row);
    row.ends = {.has_answer = ends_answer || options_.assistant_only_loss, .ids = ends_.learned(row.labels, ends)};
    return row;
  }

  static bool is_answer(const Json& message) {
    const auto role = message.find("role");
    return role != message.end() && role->is_string() && is_answering_role(role->get_ref<const std::string&>());
  }

  // Keeps the labels that the template marks as generated, and the token after them that ends an answer, which many
  // templates do not mark.
  void keep_answers(const Record& record, const text::ChatTemplate::Rendered& rendered,
                    const std::vector<int32_t>& ends, Row& row) const {
    auto mask = mask_of_ranges(tokenizer_, rendered.text, row.input_ids, rendered.generation_spans);
    if (!mask)
      throw input_error(record.where,
                        "expected a tokenizer whose tokens can be placed in the text for assistant_only_loss, got "
                        "another; use type: chat_template");
    if (std::count(mask->begin(), mask->end(), 1) == 0) {
      throw input_error(record.where,
                        "expected {{% generation %}} blocks with text in the chat template for assistant_only_loss, "
                        "got none; use type: chat_template");
    }
    for (int64_t i = 1; i < std::ssize(*mask); ++i) {
      if (nth(*mask, i - 1) == 0 || nth(*mask, i) == 1) continue;
      const auto at = ends_.mark_behind(row.input_ids, i);
      if (!at || !is_end(nth(row.input_ids, *at), ends)) continue;
      std::fill(mask->begin() + i, mask->begin() + *at + 1, 1);
      i = *at + 1;
    }
    for (size_t i = 0; i < mask->size(); ++i) {
      if ((*mask)[i] == 0) row.labels[i] = kIgnoredLabel;
    }
  }

  // Returns true for a token that ends answers: one that the config names, or where it names none, one that stops or
  // that the row closes with.
  [[nodiscard]] bool is_end(int32_t id, const std::vector<int32_t>& closing) const {
    if (!options_.eot_tokens) return ends_.stops(id) || std::find(closing.begin(), closing.end(), id) != closing.end();
    const auto& names = *options_.eot_tokens;
    return std::find(names.begin(), names.end(), tokenizer_.id_to_token(id)) != names.end();
  }

  // Removes messages of weight 0, each with a special token that ends it, from the targets.
  void ignore_weightless(const Record& record, const Json& messages, const std::string& text, Row& row) const {
    std::vector<size_t> weightless;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (has_no_weight(record, messages[i])) weightless.push_back(i);
    }
    if (weightless.empty()) return;
    const std::vector<Range> places = find_replaced(
        text, weightless.size(), [&](std::span<const size_t> some, std::span<const std::string> stand_ins) {
          Json changed = messages;
          for (size_t i = 0; i < some.size(); ++i) {
            Json& message = changed[weightless[some[i]]];
            message = {{"role", message["role"]}, {"content", stand_ins[i]}};
          }
          return render(record, changed, false).text;
        });
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const Range& place : places) ranges.emplace_back(place.begin, place.end);
    const auto mask = mask_of_ranges(tokenizer_, text, row.input_ids, ranges);
    if (!mask)
      throw input_error(record.where,
                        "expected a tokenizer whose tokens can be placed in the text for messages of weight 0, got "
                        "another; use type: chat_template");
    for (size_t i = 0; i < mask->size(); ++i) {
      const bool ends = i > 0 && (*mask)[i - 1] != 0 && tokenizer_.is_special(row.input_ids[i]);
      if ((*mask)[i] != 0 || ends) row.labels[i] = kIgnoredLabel;
    }
  }

  RowOptions options_;
  const text::Tokenizer& tokenizer_;
  ChatRenderer renderer_;
  AnswerEnds ends_;
};

}  // namespace

std::unique_ptr<RowBuilder> make_column_rows(const DatasetConfig& config, const RowOptions& options,
                                             const text::Tokenizer& tokenizer) {
  return std::make_unique<ColumnRows>(config, options, tokenizer);
}

}  // namespace spillway::data

// Rows of plain text: axolotl's completion, pretrain, input_output, reflection and pygmalion.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "data/rows/row_builder.h"
#include "data/rows/text_pattern.h"
#include "text/jinja/unicode.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// axolotl cuts a completion's text at this many times sequence_len before it cuts it into rows.
constexpr int64_t kCompletionRows = 64;
// The largest overlap of two neighbouring windows of a pretraining text, in tokens.
constexpr int64_t kMaxOverlap = 256;

std::string text_column(const DatasetConfig& config) {
  return config.text_column.empty() ? "text" : config.text_column;
}

InputError no_room_for_text(const RowOptions& options) {
  return input_error("sequence_len", "expected room for text beside the tokens that mark its ends, got {}; raise it",
                     options.sequence_len);
}

class CompletionRows : public RowBuilder {
 public:
  CompletionRows(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        field_(config.field.empty() ? "text" : config.field),
        row_tokens_(options.sequence_len) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const std::string text = text_of(record, required_field(record, field_, "field"), field_);
    std::vector<int32_t> ids = encode_to_end(tokenizer_, text);
    const int64_t cut = std::max<int64_t>(0, std::ssize(ids) - row_tokens_ * kCompletionRows);
    resize(ids, std::ssize(ids) - cut);
    if (ids.empty()) rows.emplace_back();
    const auto size = static_cast<int64_t>(ids.size());
    for (int64_t at = 0; at < size; at += row_tokens_)
      rows.push_back(learn_all({ids.begin() + at, ids.begin() + std::min(size, at + row_tokens_)}));
    rows.back().cut_tokens = cut;
  }

 private:
  const text::Tokenizer& tokenizer_;
  std::string field_;
  int64_t row_tokens_;
};

// Makes a row of the start of a text that fits beside two more tokens, one of which is an EOS if texts are joined.
class TextStarts : public RowBuilder {
 public:
  TextStarts(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        column_(text_column(config)),
        tokens_(options.sequence_len - 2),
        marks_behind_(std::ssize(tokenizer.marks().behind)),
        ends_(options.pretrain_text == PretrainText::kJoined) {
    if (tokens_ <= std::ssize(tokenizer.marks().before) + marks_behind_) throw no_room_for_text(options);
  }

  void build(const Record& record, std::vector<Row>& rows) const override {
    std::vector<int32_t> ids =
        tokenizer_.encode(text_of(record, required_field(record, column_, "text_column"), column_), true);
    const int64_t cut = std::max<int64_t>(0, std::ssize(ids) - tokens_);
    if (cut > 0) ids.erase(ids.begin() + (tokens_ - marks_behind_), ids.end() - marks_behind_);
    if (ends_ && tokenizer_.eos_id()) ids.push_back(*tokenizer_.eos_id());
    rows.push_back(learn_all(std::move(ids)));
    rows.back().cut_tokens = cut;
  }

 private:
  const text::Tokenizer& tokenizer_;
  std::string column_;
  int64_t tokens_, marks_behind_;
  bool ends_;
};

// Windows over a text that overlap, each with an EOS behind it.
class PretrainRows : public RowBuilder {
 public:
  PretrainRows(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        column_(text_column(config)),
        window_(options.sequence_len - 1),
        marks_(tokenizer.marks()),
        overlap_(std::min(kMaxOverlap, window_ / 2)) {
    if (room() <= overlap_) throw no_room_for_text(options);
  }

  void build(const Record& record, std::vector<Row>& rows) const override {
    const std::string text = text_of(record, required_field(record, column_, "text_column"), column_);
    std::vector<int32_t> ids = tokenizer_.encode(text, false);
    const auto size = static_cast<int64_t>(ids.size());
    for (int64_t at = 0; at == 0 || at + overlap_ < size; at += room() - overlap_) {
      std::vector<int32_t> window = marks_.before;
      window.insert(window.end(), ids.begin() + at, ids.begin() + std::min(size, at + room()));
      window.insert(window.end(), marks_.behind.begin(), marks_.behind.end());
      if (tokenizer_.eos_id()) window.push_back(*tokenizer_.eos_id());
      rows.push_back(learn_all(std::move(window)));
    }
  }

 private:
  [[nodiscard]] int64_t room() const { return window_ - std::ssize(marks_.before) - std::ssize(marks_.behind); }

  const text::Tokenizer& tokenizer_;
  std::string column_;
  int64_t window_;                // without the EOS
  text::Tokenizer::Marks marks_;  // of every window
  int64_t overlap_;
};

// Segments of text, each marked as to be learned or not; nothing is added.
class SegmentRows : public RowBuilder {
 public:
  SegmentRows(const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), train_on_inputs_(options.train_on_inputs) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    Row row;
    const Json segments = list_of(record, required_field(record, "segments", "type"), "segments");
    for (const Json& segment : segments) {
      if (!segment.is_object() || !segment.contains("text") || !segment.contains("label")) {
        throw input_error(record.where,
                          "expected segments with text and label (true or false), got {}; correct the row",
                          segment.type_name());
      }
      const std::vector<int32_t> ids = tokenizer_.encode(text_of(record, segment["text"], "text"), false);
      row.input_ids.insert(row.input_ids.end(), ids.begin(), ids.end());
      const bool learn = truth_of(record, segment["label"], "label") || train_on_inputs_;
      for (const int32_t id : ids) row.labels.push_back(learn ? id : kIgnoredLabel);
    }
    rows.push_back(std::move(row));
  }

 private:
  const text::Tokenizer& tokenizer_;
  bool train_on_inputs_;
};

// A thought, a reflection on it, and the answer that comes of both.
class ReflectionRows : public RowBuilder {
 public:
  enum class Style { kBare, kInstruct, kChat };  // without one in the type's name there is no task in front

  ReflectionRows(Style style, const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        style_(style),
        train_on_inputs_(options.train_on_inputs),
        row_tokens_(options.sequence_len) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const auto text = [&](const char* name) { return text_of(record, required_field(record, name, "type"), name); };
    const std::string input = record.fields.contains("input") ? text("input") : "";
    const std::string prompt = prompt_text(text("instruction"), input);
    const std::string output = text("output"), reflection = text("reflection"), corrected = text("corrected");
    const bool complete = !output.empty() && !reflection.empty() && !corrected.empty();
    std::vector<int32_t> ids =
        encode_to_end(tokenizer_, complete ? prompt + answer(output, reflection, corrected) : prompt);
    const int64_t cut = std::max<int64_t>(0, std::ssize(ids) - row_tokens_);
    resize(ids, std::ssize(ids) - cut);
    Row row = learn_all(std::move(ids));
    row.cut_tokens = cut;
    if (!train_on_inputs_) {
      const size_t prompt_tokens = tokenizer_.encode(prompt, true).size();
      std::fill_n(row.labels.begin(), std::min(prompt_tokens, row.labels.size()), kIgnoredLabel);
    }
    rows.push_back(std::move(row));
  }

 private:
  [[nodiscard]] std::string prompt_text(const std::string& instruction, const std::string& input) const {
    constexpr std::string_view kTask =
        "You, the Assistant, should generate a response as if it were an abstract for an academic or technical paper "
        "on the query along with a methodology. Then generate an Agent Reflection where you create a long form "
        "response as if from subject matter expert, be verbose, diligent, and creative in your application of "
        "knowledge, apply it through the lens of the response generated by the assistant. Look for flawed reasoning, "
        "faulty logic, or other mistakes in the method. Finally, generate a final response and method for the user "
        "with the Assistant abstract and Reflection analysis as augmentations to the generation\n\n";
    const std::string_view with_input = input.empty() ? "" : ", paired with an input that provides further context";
    std::string text;
    if (style_ != Style::kBare)
      text = fmt::format("Below is an instruction that describes a task{}. {}", with_input, kTask);
    if (style_ == Style::kChat)
      return text + "USER: " + instruction + (input.empty() ? "" : "\n" + input) + "\nASSISTANT:";
    text += "### Instruction:\n" + instruction;
    if (!input.empty()) text += "\n\n### Input:\n" + input;
    return text + "\n\n### Response:\n";
  }

  [[nodiscard]] std::string answer(const std::string& output, const std::string& reflection,
                                   const std::string& corrected) const {
    // axolotl's chat style ends where the corrected answer would begin.
    if (style_ == Style::kChat)
      return "\nTHOUGHT: " + output + "\nASSISTANT REFLECTION: " + reflection + "\nASSISTANT:";
    return "### Thought:\n" + output + "\n\n### Agent Reflection:\n" + reflection + "\n\n### Final Response:\n" +
           corrected;
  }

  const text::Tokenizer& tokenizer_;
  Style style_;
  bool train_on_inputs_;
  int64_t row_tokens_;
};

// Conversations of Pygmalion: `conversations` with role (system, human, bot) and value.
class PygmalionRows : public RowBuilder {
 public:
  explicit PygmalionRows(const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), model_tokens_(encode(kModel, false, true).size()) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    Row row;
    const Json turns = list_of(record, required_field(record, "conversations", "type"), "conversations");
    for (const Json& turn : turns) {
      if (!turn.is_object() || !turn.contains("role") || !turn.contains("value"))
        throw input_error(record.where,
                          "expected turns with role and value in 'conversations', got {}; correct the row",
                          turn.type_name());
      add_turn(record, text_of(record, turn["role"], "role"), text_of(record, turn["value"], "value"), row);
    }
    rows.push_back(std::move(row));
  }

 private:
  static constexpr std::string_view kModel = "<|model|>";

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool to_end, bool strip_bos) const {
    std::vector<int32_t> ids = to_end ? encode_to_end(tokenizer_, text) : tokenizer_.encode(text, true);
    if (strip_bos && !ids.empty() && tokenizer_.bos_id() == ids.front()) ids.erase(ids.begin());
    return ids;
  }

  void add_turn(const Record& record, const std::string& role, std::string_view text, Row& row) const {
    constexpr std::string_view kStart = "\n<START>";
    if (role == "system" && text.ends_with(kStart)) text.remove_suffix(kStart.size());
    const std::string_view body = text::jinja::strip(text, true, true, nullptr);
    std::vector<int32_t> ids;
    size_t ignored = 0;
    if (role == "system") {
      ids = encode(fmt::format("<|system|>Persona: {}", body), false, false);
      ignored = ids.size();
    } else if (role == "human") {
      ids = encode(fmt::format("<|user|> {}", body), false, true);
      ignored = ids.size();
    } else if (role == "bot") {
      ids = encode(fmt::format("{} {}", kModel, body), true, true);
      ignored = std::min(model_tokens_, ids.size());
    } else {
      throw input_error(record.where, "expected a role of system, human or bot, got {}; correct the row", quote(role));
    }
    row.input_ids.insert(row.input_ids.end(), ids.begin(), ids.end());
    row.labels.insert(row.labels.end(), ignored, kIgnoredLabel);
    row.labels.insert(row.labels.end(), ids.begin() + static_cast<std::ptrdiff_t>(ignored), ids.end());
  }

  const text::Tokenizer& tokenizer_;
  size_t model_tokens_;
};

}  // namespace

bool is_text_rows_type(std::string_view type) {
  constexpr std::string_view kTypes[] = {
      "completion", "pretrain", "input_output", "pygmalion", "reflection", "reflection:instruct", "reflection:chat"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

std::unique_ptr<RowBuilder> make_text_rows(const DatasetConfig& config, const RowOptions& options,
                                           const text::Tokenizer& tokenizer) {
  const std::string& type = config.type.name;
  if (type == "completion") return std::make_unique<CompletionRows>(config, options, tokenizer);
  if (type == "pretrain" && options.pretrain_text != PretrainText::kWindows)
    return std::make_unique<TextStarts>(config, options, tokenizer);
  if (type == "pretrain") return std::make_unique<PretrainRows>(config, options, tokenizer);
  if (type == "input_output") return std::make_unique<SegmentRows>(options, tokenizer);
  if (type == "pygmalion") return std::make_unique<PygmalionRows>(tokenizer);
  if (!is_text_rows_type(type)) return nullptr;
  using Style = ReflectionRows::Style;
  const Style style = type == "reflection:chat"       ? Style::kChat
                      : type == "reflection:instruct" ? Style::kInstruct
                                                      : Style::kBare;
  return std::make_unique<ReflectionRows>(style, options, tokenizer);
}

}  // namespace spillway::data

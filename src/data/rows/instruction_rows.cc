// Rows of prompt and answer: axolotl's completion, alpaca and its kin, and input_output.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/rows/row_builder.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// axolotl cuts a completion's text at this many times sequence_len before it cuts it into rows.
constexpr int64_t kCompletionRows = 64;

// The alpaca layouts, as their users know them.
struct Layout {
  std::string_view name;
  std::string_view system;                  // around the system text
  std::string_view before, between, after;  // around instruction and input
  std::string_view after_alone;             // behind an instruction without input
};

constexpr std::array kLayouts = {
    Layout{"instruct", "{}\n\n", "### Instruction:\n", "\n\n### Input:\n", "\n\n### Response:\n",
           "\n\n### Response:\n"},
    Layout{"chat", "SYSTEM: {}\n", "USER: ", "\n", "\nASSISTANT:", "\nASSISTANT:"},
    Layout{"chatml", "<|im_start|>system\n{}<|im_end|>\n", "<|im_start|>user\n", "\n",
           "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>assistant\n"},
    Layout{"phi", "<|system|>\n{}<|end|>\n", "<|user|>\n", "<|end|>", "<|assistant|>", "<|end|>\n<|assistant|>\n"},
};

constexpr std::string_view kWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that "
    "appropriately completes the request.";
constexpr std::string_view kAlone =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
constexpr std::string_view kConciseWithInput =
    "Below is an instruction from a USER that describes a task, paired with an input that provides further context. "
    "The ASSISTANT "
    "writes a response that concisely and appropriately completes the request.\n\n";
constexpr std::string_view kConciseAlone =
    "Below is an instruction from a USER that describes a task. The ASSISTANT writes a response that appropriately and "
    "concisely "
    "completes the request.\n\n";

// A type: its layout, its columns ("" where it has none) and its system texts.
struct Kind {
  std::string_view type, layout;
  std::string_view instruction, input, output, system;
  std::string_view with_input = kWithInput, alone = kAlone;
};

constexpr std::array kKinds = {
    Kind{"alpaca", "instruct", "instruction", "input", "output", ""},
    Kind{"alpaca:instruct", "instruct", "instruction", "input", "output", ""},
    Kind{"alpaca:chat", "chat", "instruction", "input", "output", ""},
    Kind{"alpaca:chatml", "chatml", "instruction", "input", "output", ""},
    Kind{"alpaca:phi", "phi", "instruction", "input", "output", ""},
    Kind{"alpaca_chat", "chat", "instruction", "input", "output", ""},
    Kind{"alpaca_chat.load_concise", "chat", "instruction", "input", "output", "", kConciseWithInput, kConciseAlone},
    Kind{"alpaca_chat.load_qa", "chat", "question", "", "answer", "", kConciseWithInput, kConciseAlone},
    Kind{"alpaca_chat.load_camel_ai", "chat", "message_1", "", "message_2", "", kConciseWithInput, kConciseAlone},
    Kind{"alpaca_chat.load_no_prompt", "chat", "instruction", "input", "output", "", "", ""},
    Kind{"alpaca_w_system", "chat", "instruction", "input", "output", "system"},
    Kind{"alpaca_w_system.load_chat", "chat", "instruction", "input", "output", "system"},
    Kind{"alpaca_w_system.load_instruct", "instruct", "instruction", "input", "output", "system"},
    Kind{"gpteacher", "instruct", "instruction", "input", "response", ""},
    Kind{"oasst", "instruct", "INSTRUCTION", "", "RESPONSE", ""},
};

// Encodes, and ends the text with EOS where it does not end with it already.
std::vector<int32_t> encode_to_end(const Tokenizer& tokenizer, std::string_view text) {
  if (text.empty()) return {};
  std::vector<int32_t> ids = tokenizer.encode(text, true);
  const auto eos = tokenizer.eos_id();
  if (eos && !ids.empty() && ids.back() != *eos) ids.push_back(*eos);
  return ids;
}

class CompletionRows : public RowBuilder {
 public:
  CompletionRows(const DatasetConfig& config, const RowOptions& options, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        field_(config.field.empty() ? "text" : config.field),
        row_tokens_(options.sequence_len) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const std::string text = text_of(record, required_field(record, field_, "field"), field_);
    std::vector<int32_t> ids = encode_to_end(tokenizer_, text);
    ids.resize(std::min(ids.size(), static_cast<size_t>(row_tokens_ * kCompletionRows)));
    if (ids.empty()) rows.emplace_back();
    for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(row_tokens_)) {
      const size_t end = std::min(ids.size(), at + static_cast<size_t>(row_tokens_));
      rows.push_back(
          learn_all({ids.begin() + static_cast<std::ptrdiff_t>(at), ids.begin() + static_cast<std::ptrdiff_t>(end)}));
    }
  }

 private:
  const Tokenizer& tokenizer_;
  std::string field_;
  int64_t row_tokens_;
};

class AlpacaRows : public RowBuilder {
 public:
  AlpacaRows(const Kind& kind, const DatasetConfig& config, const RowOptions& options, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), kind_(kind), train_on_inputs_(options.train_on_inputs) {
    layout_ = std::find_if(kLayouts.begin(), kLayouts.end(),
                           [&](const Layout& layout) { return layout.name == kind.layout; });
    const auto column = [](const std::string& given, std::string_view usual) {
      return given.empty() ? std::string(usual) : given;
    };
    instruction_ = column(config.field_instruction, kind.instruction);
    input_ = column(config.field_input, kind.input);
    output_ = column(config.field_output, kind.output);
    system_ = column(config.field_system, kind.system);
  }

  void build(const Record& record, std::vector<Row>& rows) const override {
    const std::string instruction =
        text_of(record, required_field(record, instruction_, "field_instruction"), instruction_);
    const std::string output = text_of(record, required_field(record, output_, "field_output"), output_);
    const bool has_input = !input_.empty() && record.fields.contains(input_);
    const std::string input = has_input ? text_of(record, record.fields[input_], input_) : "";
    Row row = learn_all(tokenizer_.encode(prompt(record, instruction, input), true));
    if (!train_on_inputs_) std::fill(row.labels.begin(), row.labels.end(), kIgnoredLabel);
    std::vector<int32_t> answer = encode_to_end(tokenizer_, output);
    if (!answer.empty() && tokenizer_.bos_id() == answer.front()) answer.erase(answer.begin());
    row.input_ids.insert(row.input_ids.end(), answer.begin(), answer.end());
    row.labels.insert(row.labels.end(), answer.begin(), answer.end());
    rows.push_back(std::move(row));
  }

 private:
  [[nodiscard]] std::string prompt(const Record& record, const std::string& instruction,
                                   const std::string& input) const {
    std::string system(input.empty() ? kind_.alone : kind_.with_input);
    if (!kind_.system.empty()) system = text_of(record, required_field(record, system_, "field_system"), system_);
    std::string text = system.empty() ? "" : fmt::format(fmt::runtime(layout_->system), system);
    text += std::string(layout_->before) + instruction;
    if (input.empty()) return text + std::string(layout_->after_alone);
    return text + std::string(layout_->between) + input + std::string(layout_->after);
  }

  const Tokenizer& tokenizer_;
  const Kind& kind_;
  const Layout* layout_ = nullptr;
  bool train_on_inputs_;
  std::string instruction_, input_, output_, system_;
};

// Segments of text, each marked as to be learned or not; nothing is added.
class SegmentRows : public RowBuilder {
 public:
  SegmentRows(const RowOptions& options, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), train_on_inputs_(options.train_on_inputs) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    Row row;
    const Json segments = list_of(record, required_field(record, "segments", "type"), "segments");
    for (const Json& segment : segments) {
      if (!segment.is_object() || !segment.contains("text") || !segment.contains("label") ||
          !segment["label"].is_boolean()) {
        throw input_error(record.where,
                          "expected segments with text and label (true or false), got {}; correct the row",
                          segment.type_name());
      }
      const std::vector<int32_t> ids = tokenizer_.encode(text_of(record, segment["text"], "text"), false);
      row.input_ids.insert(row.input_ids.end(), ids.begin(), ids.end());
      const bool learn = train_on_inputs_ || segment["label"].get<bool>();
      for (const int32_t id : ids) row.labels.push_back(learn ? id : kIgnoredLabel);
    }
    rows.push_back(std::move(row));
  }

 private:
  const Tokenizer& tokenizer_;
  bool train_on_inputs_;
};

}  // namespace

std::unique_ptr<RowBuilder> make_instruction_rows(const DatasetConfig& config, const RowOptions& options,
                                                  const Tokenizer& tokenizer) {
  const std::string& type = config.type.name;
  if (type == "completion") return std::make_unique<CompletionRows>(config, options, tokenizer);
  if (type == "input_output") return std::make_unique<SegmentRows>(options, tokenizer);
  const auto* kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.type == type; });
  if (kind == kKinds.end()) return nullptr;
  return std::make_unique<AlpacaRows>(*kind, config, options, tokenizer);
}

}  // namespace spillway::data

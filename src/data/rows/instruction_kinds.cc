#include "data/rows/instruction_kinds.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace spillway::data {
namespace {

struct Style {
  std::string_view name;
  PromptLayout layout;
};

constexpr PromptLayout kInstruct = {"{system}\n\n",
                                    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
                                    "### Instruction:\n{instruction}\n\n### Response:\n"};
constexpr PromptLayout kChat = {"SYSTEM: {system}\n",
                                "USER: {instruction}\n{input}\nASSISTANT:", "USER: {instruction}\nASSISTANT:"};
constexpr PromptLayout kChatml = {
    "<|im_start|>system\n{system}<|im_end|>\n",
    "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
};
constexpr PromptLayout kPhi = {"<|system|>\n{system}<|end|>\n", "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
                               "<|user|>\n{instruction}<|end|>\n<|assistant|>\n"};
constexpr std::array kStyles = {Style{"instruct", kInstruct}, Style{"chat", kChat}, Style{"chatml", kChatml},
                                Style{"phi", kPhi}};

// Layouts of single types.
constexpr PromptLayout kChatWithoutLabel = {"{system}", kChat.turn, kChat.alone};
constexpr PromptLayout kTldr = {"{system}",
                                "USER: Summarize the following article as a TL;DR.\n{instruction}\n{input}\nASSISTANT:",
                                "USER: Summarize the following article as a TL;DR.\n{instruction}\nASSISTANT:"};
constexpr PromptLayout kOpenOrca = {
    "### System:\n{system}\n",
    "### Human:\n{instruction}\n### Additional Context:\n{input}\n### Assistant:\n",
    "### Human:\n{instruction}\n### Assistant:\n",
};
// The system text is part of the turn, so that its heading is there without one, too.
constexpr PromptLayout kOrcaMini = {"", "", "### System:\n{system}\n\n### User:\n{instruction}\n\n### Response:\n"};
constexpr PromptLayout kBare = {"{system}", "{instruction}\n{input}", "{instruction}"};
constexpr PromptLayout kCreative = {"{system}\n", kChat.turn, kChat.alone};

constexpr std::string_view kWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.";
constexpr std::string_view kAlone =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
constexpr std::string_view kConciseWithInput =
    "Below is an instruction from a USER that describes a task, paired with an input that provides further context. "
    "The ASSISTANT writes a response that concisely and appropriately completes the request.\n\n";
constexpr std::string_view kConciseAlone =
    "Below is an instruction from a USER that describes a task. The ASSISTANT writes a response that appropriately and "
    "concisely completes the request.\n\n";
constexpr std::string_view kChoiceExplained =
    "Choose the answer that best answers the question. Explain your reasoning.\n";
constexpr std::string_view kChoiceConcise =
    "Choose the answer that best answers the question. Be concise in your response.\n\n";
constexpr std::string_view kFromContext =
    "Use the following contextual information to concisely answer the question.\n";
constexpr std::string_view kCreatively =
    "Answer the following question in a comprehensive, in-depth, and creative way. Additionally your response should "
    "be relevant, accurate, and free of any ambiguity.";
constexpr std::string_view kNotInContext =
    "The context provided does not contain any information about your inquiry. Therefore, I'm unable to answer your "
    "question based on the given context.";

// Types whose name may carry a style (`alpaca:chat`); without one it is instruct.
constexpr std::array kStyledKinds = {
    InstructionKind{"alpaca", kInstruct, "{instruction}", "{input?}", "{output}", kWithInput, kAlone},
    InstructionKind{"explainchoice", kInstruct, "{question}", "{choices*}", "{solution|explanation}", kChoiceExplained,
                    kChoiceExplained},
    InstructionKind{"gpteacher", kInstruct, "{instruction}", "{input?}", "{response}", kWithInput, kAlone},
    InstructionKind{"jeopardy", kInstruct, "{question}", "{category}", "what is {answer}", kWithInput, kAlone},
    InstructionKind{"oasst", kInstruct, "{INSTRUCTION}", "", "{RESPONSE}", kWithInput, kAlone},
};

// Types with one layout.
constexpr std::array kKinds = {
    InstructionKind{"concisechoice", kChatWithoutLabel, "{question}", "{choices*}", "{solution|explanation}",
                    kChoiceConcise, kChoiceConcise},
    InstructionKind{"summarizetldr", kTldr, "{article}", "", "{summary}", "", ""},
    InstructionKind{"alpaca_instruct", kInstruct, "{instruction}", "{input?}", "{output}", kWithInput, kAlone},
    InstructionKind{"alpaca_instruct.load_no_prompt", kInstruct, "{instruction}", "{input?}", "{output}", "", ""},
    InstructionKind{"alpaca_chat", kChat, "{instruction}", "{input?}", "{output}", kWithInput, kAlone},
    InstructionKind{"alpaca_chat.load_concise", kChat, "{instruction}", "{input?}", "{output}", kConciseWithInput,
                    kConciseAlone},
    InstructionKind{"alpaca_chat.load_qa", kChat, "{question}", "", "{answer}", kConciseWithInput, kConciseAlone},
    InstructionKind{"alpaca_chat.load_camel_ai", kChat, "{message_1}", "", "{message_2}", kConciseWithInput,
                    kConciseAlone},
    InstructionKind{"alpaca_chat.load_no_prompt", kChat, "{instruction}", "{input?}", "{output}", "", ""},
    InstructionKind{"alpaca_w_system", kChat, "{instruction}", "{input?}", "{output}", "", "", "system"},
    InstructionKind{"alpaca_w_system.load_chat", kChat, "{instruction}", "{input?}", "{output}", "", "", "system"},
    InstructionKind{"alpaca_w_system.load_instruct", kInstruct, "{instruction}", "{input?}", "{output}", "", "",
                    "system"},
    InstructionKind{"alpaca_w_system.load_open_orca", kOpenOrca, "{question}", "", "{response}", "", "",
                    "system_prompt"},
    InstructionKind{"alpaca_w_system.load_open_orca_chatml", kChatml, "{question}", "", "{response}", "", "",
                    "system_prompt"},
    InstructionKind{"orcamini", kOrcaMini, "{question}", "", "{response}", "", "", "system_prompt"},
    InstructionKind{"context_qa", kChat, "{article}\n===\n{question}", "", "{answer}", kFromContext, kFromContext},
    InstructionKind{"context_qa.load_v2", kBare, "Context: {context}\nQuestion: {question}\n", "", "Answer: {answer}",
                    "", ""},
    InstructionKind{"context_qa.load_404", kChat, "{article}\n===\n{unanswerable_question}", "", kNotInContext,
                    kFromContext, kFromContext},
    InstructionKind{"creative_acr.load_answer", kCreative, "{instruction}", "", "{revision}", kCreatively, kCreatively},
    InstructionKind{"metharme", kBare, "{prompt}", "", "{generation}", "", "", "", 3},
};

// The kinds among them that may have a style, which changes nothing. The others are modules of axolotl's, whose
// functions are named after a dot.
constexpr std::array<std::string_view, 2> kStyleIgnored = {"concisechoice", "summarizetldr"};

template <typename Kinds>
const InstructionKind* find_kind(const Kinds& kinds, std::string_view type) {
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const InstructionKind& kind) { return kind.type == type; });
  return found == kinds.end() ? nullptr : &*found;
}

const PromptLayout& layout_of_style(std::string_view type, std::string_view style, std::string_view where) {
  std::vector<std::string_view> names;
  for (const Style& one : kStyles) {
    if (one.name == style) return one.layout;
    names.push_back(one.name);
  }
  throw input_error(where, "expected {} behind the colon of {}, got {}; correct the style", joined_names(names),
                    quote(type), quote(style));
}

}  // namespace

std::optional<InstructionKind> instruction_kind(std::string_view type, std::string_view where) {
  if (type.ends_with(".load")) type.remove_suffix(std::string_view(".load").size());
  const size_t colon = type.find(':');
  const std::string_view base = type.substr(0, colon);
  const bool has_style = colon != std::string_view::npos;
  if (has_style && type.substr(colon + 1).starts_with("load")) return std::nullopt;
  if (const InstructionKind* kind = find_kind(kKinds, base)) {
    const bool may_have = std::find(kStyleIgnored.begin(), kStyleIgnored.end(), base) != kStyleIgnored.end();
    return has_style && !may_have ? std::nullopt : std::optional(*kind);
  }
  const InstructionKind* styled = find_kind(kStyledKinds, base);
  if (styled == nullptr) return std::nullopt;
  InstructionKind kind = *styled;
  if (has_style) kind.layout = layout_of_style(type, type.substr(colon + 1), where);
  return kind;
}

bool is_renamable(std::string_view pattern) {
  return pattern.empty() || (pattern.starts_with('{') && pattern.find('}') == pattern.size() - 1);
}

std::vector<std::string_view> instruction_types() {
  std::vector<std::string_view> names;
  for (const InstructionKind& kind : kStyledKinds) names.push_back(kind.type);
  for (const InstructionKind& kind : kKinds) names.push_back(kind.type);
  return names;
}

}  // namespace spillway::data

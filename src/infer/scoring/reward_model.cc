#include "infer/scoring/reward_model.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/rows/row_builder.h"
#include "infer/inference_model.h"
#include "model/layout.h"
#include "rewards/builtin.h"

namespace spillway::infer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

ModelPtr read_classifier(const rewards::RewardEntry& entry) {
  const fs::path folder = entry.folder;
  if (!fs::exists(folder / "config.json")) {
    const bool is_adapter = fs::exists(folder / "adapter_config.json");
    throw input_error(entry.where, "expected a folder with config.json, got {}{}; {}", quote(entry.name),
                      is_adapter ? ", which is an adapter" : "",
                      is_adapter ? "make a model of it with `spillway merge`" : "name another");
  }
  ModelPtr model = read_model(folder);
  const std::optional<ScoreHead> score = text_of(*model, entry.where).score;
  if (score && !score->is_of_tokens) return model;
  throw input_error(entry.where, "expected a classifier of one label, got {} that {}; {}", quote(entry.name),
                    score ? "scores steps" : "predicts tokens", "name a folder that reward_model: true has written");
}

std::optional<text::ChatTemplates> templates_of(const text::Tokenizer& tokenizer, const std::string& folder) {
  std::optional<std::string> usual = tokenizer.chat_template();
  if (!usual) return {};
  return text::ChatTemplates::compile(std::move(*usual), tokenizer.chat_template("tool_use"),
                                      fmt::format("chat template of {}", folder));
}

}  // namespace

RewardModel::RewardModel(const rewards::RewardEntry& entry, const std::string& template_kwargs, const std::tm& now)
    : where_(entry.where),
      folder_(entry.folder),
      model_(read_classifier(entry)),
      tokenizer_(text::Tokenizer::load(folder_)),
      templates_(templates_of(tokenizer_, folder_)),
      variables_(data::template_variables(tokenizer_, {template_kwargs})),
      now_(now) {
  if (const int64_t rows = model_->text()->vocab_size; tokenizer_.vocabulary_size() > rows)
    throw input_error(where_,
                      "expected a tokenizer of at most {} tokens in {}, as its vocab_size says, got one of {}; use "
                      "the tokenizer that belongs to the model",
                      rows, quote(entry.name), tokenizer_.vocabulary_size());
  options_.dtype = files_dtype(*model_, folder_);
}

std::string RewardModel::text_of(const Json& messages) const {
  if (!templates_)
    throw input_error(where_, "expected a chat template in {}, since prompts are messages, got none; {}",
                      quote(folder_), "add chat_template.jinja to the folder, or write prompts as texts");
  text::ChatInput input;
  input.messages = messages;
  input.variables = variables_;
  return text::render_chat(templates_->for_tools(input.tools), input, now_).text;
}

std::vector<int32_t> RewardModel::tokens_of(const Json& prompt, const Json& completion) const {
  if (prompt.is_string()) {
    return tokenizer_.encode(prompt.get_ref<const std::string&>() + rewards::text_of(completion), false);
  }
  Json messages = prompt;
  if (completion.is_array()) {
    messages.insert(messages.end(), completion.begin(), completion.end());
  } else {
    messages.push_back({{"role", "assistant"}, {"content", completion}});
  }
  return tokenizer_.encode(text_of(messages), false);
}

size_t scored_token(std::span<const int32_t> ids, std::optional<int32_t> padding) {
  size_t last = ids.size() - 1;
  while (last > 0 && ids[last] == padding) --last;
  return last;
}

}  // namespace spillway::infer

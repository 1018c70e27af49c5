// A folder of a classifier of one label that scores completions: what it reads of a prompt with its completion, and
// which number its score is. No weights; what runs it is a RewardProgram.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "rewards/rewards.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace spillway::infer {

// Immutable: any thread may use it.
class RewardModel {
 public:
  // Reads config.json, the headers of the weights where they are there, and the tokenizer's files. `template_kwargs`:
  // variables of chat templates, a JSON object as text or empty; `now`: the time that they show. Throws InputError, at
  // `entry.where` for a folder that is no classifier of one label, and for a tokenizer with more tokens than the model
  // has.
  RewardModel(const rewards::RewardEntry& entry, const std::string& template_kwargs, const std::tm& now);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] const ModelPtr& model() const { return model_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }  // dtype: that of the files

  // What TRL 1.16 gives a reward model: of messages its own chat template over all of them, else prompt and completion
  // as one text; tokens of its own tokenizer, without those that mark an end. May be empty. Throws InputError for
  // messages that the template does not take.
  [[nodiscard]] std::vector<int32_t> tokens_of(const nlohmann::ordered_json& prompt,
                                               const nlohmann::ordered_json& completion) const;
  // The token that fills batches of other programs up (scored_token()).
  [[nodiscard]] std::optional<int32_t> padding() const { return tokenizer_.fill_id(); }

 private:
  [[nodiscard]] std::string text_of(const nlohmann::ordered_json& messages) const;

  std::string where_, folder_;
  ModelPtr model_;
  ModelOptions options_;
  text::Tokenizer tokenizer_;
  std::optional<text::ChatTemplates> templates_;
  nlohmann::ordered_json variables_;
  std::tm now_;
};

// The token of a text whose score counts: the last that is not padding, as transformers' classifiers have it, else the
// first. REQUIRES: there are tokens.
[[nodiscard]] size_t scored_token(std::span<const int32_t> ids, std::optional<int32_t> padding);

}  // namespace spillway::infer

// The folder of a classifier with one label that scores completions: how a prompt with its completion is tokenised, and
// which number is its score. Holds no weights; a RewardProgram runs the model.
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
  // Reads config.json, the headers of the weights if they are there, and the tokenizer's files. `template_kwargs` are
  // variables of chat templates, a JSON object as text or empty; `now` is the time that templates show. Throws
  // InputError at `entry.where` if the folder is not a classifier with one label, or the tokenizer has more tokens than
  // the model.
  RewardModel(const rewards::RewardEntry& entry, const std::string& template_kwargs, const std::tm& now);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] const ModelPtr& model() const { return model_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }  // dtype: that of the files

  // Returns the tokens that TRL 1.16 passes to a reward model: messages as a whole through the model's own chat
  // template, otherwise prompt and completion as one text; tokenised by the model's own tokenizer without end tokens.
  // May be empty. Throws InputError for messages that the template rejects.
  [[nodiscard]] std::vector<int32_t> tokens_of(const nlohmann::ordered_json& prompt,
                                               const nlohmann::ordered_json& completion) const;
  // The token with which other programs pad batches (scored_token()).
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

// Returns the index of the token whose score is the score of the text: the last that is not padding, as in
// transformers' classifiers, else the first. REQUIRES: there are tokens.
[[nodiscard]] size_t scored_token(std::span<const int32_t> ids, std::optional<int32_t> padding);

}  // namespace spillway::infer

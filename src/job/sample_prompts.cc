#include "job/sample_prompts.h"

#include "base/error.h"
#include "base/text.h"
#include "data/rows/row_builder.h"
#include "text/chat_template.h"
#include "text/token_ids.h"

namespace spillway::train {
namespace {

constexpr std::string_view kWhere = "sample_prompts";

std::vector<int32_t> encode(const config::Config& config, const text::Tokenizer& tokenizer, const std::string& prompt,
                            const std::tm& now) {
  const data::RowOptions& rows = config.data.rows;
  const bool has_template =
      !rows.chat_template.empty() || !rows.chat_template_jinja.empty() || tokenizer.chat_template().has_value();
  if (!has_template) return tokenizer.encode(prompt, true);
  text::ChatInput input{.add_generation_prompt = true};
  input.messages = {{{"role", "user"}, {"content", prompt}}};
  input.variables = data::template_variables(tokenizer, rows.chat_template_kwargs);
  const text::ChatTemplates templates = data::choose_chat_template({}, rows, tokenizer);
  return tokenizer.encode(text::render_chat(templates.usual, input, now).text, false);
}

void check(const std::vector<int32_t>& ids, const std::string& prompt, int64_t vocab_size) {
  if (ids.empty()) throw input_error(kWhere, "expected at least one token, got {}; write something", quote(prompt));
  text::check_token_ids(ids, vocab_size, kWhere);
}

}  // namespace

SamplePrompts read_sample_prompts(const config::Config& config, int64_t vocab_size, const std::tm& now) {
  SamplePrompts result;
  if (config.samples.prompts.empty()) return result;
  const config::TokenizerSettings& settings = config.tokenizer;
  auto tokenizer = std::make_shared<text::Tokenizer>(text::Tokenizer::load(settings.folder, settings.special_tokens));
  for (const std::string& prompt : config.samples.prompts) {
    std::vector<int32_t> ids = encode(config, *tokenizer, prompt, now);
    check(ids, prompt, vocab_size);
    result.texts.push_back(prompt);
    result.prompts.push_back({std::move(ids), {.max_new_tokens = config.samples.max_new_tokens}});
  }
  result.tokenizer = std::move(tokenizer);
  return result;
}

std::vector<SampleAnswer> sample_answers(const SamplePrompts& samples, const std::vector<infer::Generated>& answers) {
  std::vector<SampleAnswer> result;
  for (size_t i = 0; i < answers.size(); ++i)
    result.push_back({samples.texts[i], samples.tokenizer->decode(answers[i].ids, true)});
  return result;
}

}  // namespace spillway::train

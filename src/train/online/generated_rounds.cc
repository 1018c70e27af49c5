#include "train/online/generated_rounds.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/index.h"

namespace spillway::train {
namespace {

using Json = nlohmann::ordered_json;

// Rounds of evaluations have separate random numbers.
constexpr int64_t kValidationRounds = int64_t{1} << 40;

// Returns the other columns of the rows, as lists; null for a row that lacks one.
Json columns_of(const std::vector<const data::PromptRow*>& rows) {
  Json columns = Json::object();
  for (const data::PromptRow* row : rows) {
    for (const auto& [name, value] : row->columns.items()) columns[name] = Json::array();
  }
  for (auto& [name, list] : columns.items()) {
    for (const data::PromptRow* row : rows)
      list.push_back(row->columns.contains(name) ? row->columns.at(name) : Json());
  }
  return columns;
}

}  // namespace

Json completion_json(const Job& job, const data::PromptRow& row, const std::vector<int32_t>& ids) {
  std::string text = job.online->tokenizer->decode(ids, true);
  if (!row.prompt.is_array()) return text;
  return Json::array({{{"role", "assistant"}, {"content", std::move(text)}}});
}

GeneratedRounds::GeneratedRounds(const Job& job, TrainingSession& session, rewards::RewardFunctions& functions,
                                 int64_t total_steps, std::function<void(int64_t done, int64_t of)> progress)
    : job_(job), session_(session), functions_(functions), total_steps_(total_steps), progress_(std::move(progress)) {}

const data::PromptRow& GeneratedRounds::row_of(const RoundRequest& request, int64_t row) const {
  return nth(request.is_validation ? job_.online->validation : job_.online->training, row);
}

RoundAnswer GeneratedRounds::make(const RoundRequest& request) {
  RoundAnswer answer;
  const double start = now_seconds();
  generate(request, answer);
  const double generated = now_seconds();
  score(request, answer);
  answer.generation_seconds = generated - start;
  answer.reward_seconds = now_seconds() - generated;
  return answer;
}

void GeneratedRounds::generate(const RoundRequest& request, RoundAnswer& answer) {
  std::vector<infer::Prompt> prompts;
  const int64_t round = request.number + (request.is_validation ? kValidationRounds : 0);
  for (const int64_t row : request.prompts)
    prompts.push_back(job_.online->prompt_of(job_.config, row_of(request, row), round, std::ssize(prompts)));
  const config::CompletionSettings& settings = job_.config.online->completions;
  infer::GenerationOptions options{.stop_ids = job_.online->stop_ids,
                                   .penalties = {.repetition = settings.repetition_penalty},
                                   .keeps_stop = true,
                                   .logprobs = true,
                                   .logprob_temperature = settings.temperature};
  if (progress_)
    options.on_answer = [&](size_t done, const infer::Generated&) {
      progress_(static_cast<int64_t>(done) + 1, std::ssize(prompts));
    };
  std::vector<infer::Generated> generated = session_.generate(prompts, options);
  for (size_t i = 0; i < generated.size(); ++i) {
    infer::Generated& one = generated[i];
    answer.generated_tokens += std::ssize(one.ids);
    answer.completions.push_back({.row = request.prompts[i],
                                  .ids = std::move(one.ids),
                                  .logprobs = {one.logprobs.begin(), one.logprobs.end()},
                                  .is_truncated = !one.stopped});
  }
}

void GeneratedRounds::score(const RoundRequest& request, RoundAnswer& answer) {
  rewards::RewardInput input{.state = {.global_step = request.step,
                                       .max_steps = total_steps_,
                                       .epoch = request.epoch,
                                       .num_train_epochs = job_.config.schedule.num_epochs,
                                       .num_input_tokens_seen = request.seen_tokens}};
  std::vector<const data::PromptRow*> rows;
  for (const Completion& one : answer.completions) {
    const data::PromptRow& row = *rows.emplace_back(&row_of(request, one.row));
    input.prompts.push_back(row.prompt);
    input.completions.push_back(completion_json(job_, row, one.ids));
    input.completion_ids.push_back(one.ids);
    input.prompt_ids.push_back(row.ids);
  }
  input.columns = columns_of(rows);
  for (const rewards::RewardOutput& output : functions_.evaluate(input)) {
    for (size_t i = 0; i < answer.completions.size(); ++i) {
      const std::optional<double> reward = output.rewards[i];
      answer.completions[i].rewards.push_back(reward ? static_cast<float>(*reward)
                                                     : std::numeric_limits<float>::quiet_NaN());
    }
    for (const auto& [name, list] : output.extra.items()) answer.extra[name] = list;
    answer.metrics.insert(answer.metrics.end(), output.metrics.begin(), output.metrics.end());
  }
}

}  // namespace spillway::train

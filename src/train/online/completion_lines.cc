#include "train/online/completion_lines.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "base/json.h"
#include "job/online/online_job.h"
#include "train/online/generated_rounds.h"

namespace spillway::train {
namespace {

using Json = nlohmann::ordered_json;

Json rewards_json(std::span<const std::string> names, const Completion& completion) {
  Json json = Json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    const float reward = completion.rewards[i];
    json[names[i]] = std::isnan(reward) ? Json() : Json(reward);
  }
  return json;
}

}  // namespace

std::string shown_prompt(const data::PromptRow& row) {
  if (row.prompt.is_string()) return row.prompt.get<std::string>();
  const Json& content = row.prompt.back().value("content", Json());
  return content.is_string() ? content.get<std::string>() : json_text(content);
}

double weighted_reward(const rewards::RewardSettings& settings, const Completion& completion) {
  double sum = 0;
  for (size_t i = 0; i < settings.weights.size(); ++i)
    if (const float reward = completion.rewards[i]; !std::isnan(reward)) sum += settings.weights[i] * reward;
  return sum;
}

std::string completion_lines(const Job& job, std::span<const std::string> names, const RoundRecord& record) {
  const Round& round = *record.round;
  std::vector<int64_t> places(round.completions.size());
  for (size_t i = 0; i < places.size(); ++i)
    nth(places, round.order[i]) =
        static_cast<int64_t>(i) / (job.config.batches.micro_batch_size * job.config.online->completions_per_row());
  std::string lines;
  for (size_t i = 0; i < round.completions.size(); ++i) {
    const Completion& one = round.completions[i];
    const data::PromptRow& row = nth(online_of(job).training, one.row);
    Json extra = Json::object();
    for (const auto& [name, list] : record.answer->extra.items()) extra[name] = list.at(i);
    Json json = {{"generation", round.number},
                 {"step", record.step},
                 {"row", one.row},
                 {"micro_step", places[i]},
                 {"prompt", row.prompt},
                 {"prompt_ids", row.ids},
                 {"completion", completion_json(job, row, one.ids)},
                 {"completion_ids", one.ids},
                 {"logprobs", one.logprobs},
                 {"finish_reason", one.finish_reason()},
                 {"rewards", rewards_json(names, one)},
                 {"advantage", one.advantage},
                 {"extra", std::move(extra)}};
    if (job.config.online->has_scores()) json.erase("advantage");
    lines += json_text(json) + "\n";
  }
  return lines;
}

}  // namespace spillway::train

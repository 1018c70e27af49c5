#include "train/online/generated_rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/index.h"
#include "base/json.h"
#include "base/sizes.h"
#include "train/rank_text.h"

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

// The completions of a round that a rank generates: those of whole prompts. `rows` are the prompts of
// the completions.
struct Share {
  int64_t begin = 0, end = 0;
};
Share share_of(std::span<const int64_t> rows, const Ranks& ranks) {
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < std::ssize(rows); ++i)
    if (i == 0 || nth(rows, i) != nth(rows, i - 1)) groups.push_back(i);
  const int64_t count = std::ssize(groups);
  groups.push_back(std::ssize(rows));
  return {nth(groups, count * ranks.rank() / ranks.size()), nth(groups, count * (ranks.rank() + 1) / ranks.size())};
}

std::string to_text(std::span<const infer::Generated> completions) {
  TextWriter text;
  for (const infer::Generated& one : completions) {
    text.add_list(one.ids);
    text.add_list(one.logprobs);
    text.add(one.stopped);
  }
  return text.take();
}

// Appends the completions of a text to the answer.
void add_completions(std::string_view text, std::span<const int64_t> rows, RoundAnswer& answer) {
  for (TextReader reader(text); !reader.is_at_end();) {
    Completion& one = answer.completions.emplace_back();
    one.row = rows[answer.completions.size() - 1];
    one.ids = reader.take_list<int32_t>();
    const std::vector<double> logprobs = reader.take_list<double>();
    one.logprobs.assign(logprobs.begin(), logprobs.end());
    one.is_truncated = !reader.take<bool>();
    answer.generated_tokens += std::ssize(one.ids);
  }
}

// The parts of an answer that rank 0 tells the others.
std::string to_text(const RoundAnswer& answer) {
  TextWriter text;
  for (const Completion& one : answer.completions) text.add_list(one.rewards);
  text.add_list(json_text(answer.extra));
  text.add(answer.generation_seconds);
  text.add(answer.reward_seconds);
  for (const auto& [name, value] : answer.metrics) {
    text.add_list(name);
    text.add(value);
  }
  return text.take();
}

void take_rewards(std::string_view text, RoundAnswer& answer) {
  TextReader reader(text);
  for (Completion& one : answer.completions) one.rewards = reader.take_list<float>();
  answer.extra = Json::parse(reader.take_string());
  answer.generation_seconds = reader.take<double>();
  answer.reward_seconds = reader.take<double>();
  while (!reader.is_at_end()) {
    const std::string name(reader.take_string());
    answer.metrics.emplace_back(name, reader.take<double>());
  }
}

}  // namespace

Json completion_json(const Job& job, const data::PromptRow& row, const std::vector<int32_t>& ids) {
  std::string text = online_of(job).tokenizer->decode(ids, true);
  if (!row.prompt.is_array()) return text;
  return Json::array({{{"role", "assistant"}, {"content", std::move(text)}}});
}

GeneratedRounds::GeneratedRounds(const Job& job, TrainingSession& session, rewards::RewardFunctions* functions,
                                 JobRewards& models, Ranks& ranks, int64_t total_steps,
                                 std::function<void(int64_t done, int64_t of)> progress)
    : job_(job),
      online_(online_of(job)),
      session_(session),
      functions_(functions),
      models_(models),
      ranks_(ranks),
      names_(rewards::names_of(job.config.rewards->functions)),
      total_steps_(total_steps),
      progress_(std::move(progress)) {}

const data::PromptRow& GeneratedRounds::row_of(const RoundRequest& request, int64_t row) const {
  return nth(request.is_validation ? online_.validation : online_.training, row);
}

RoundAnswer GeneratedRounds::make(const RoundRequest& request) {
  RoundAnswer answer;
  const double start = now_seconds();
  generate(request, answer);
  answer.generation_seconds = now_seconds() - start;
  score(request, answer);
  return answer;
}

void GeneratedRounds::generate(const RoundRequest& request, RoundAnswer& answer) {
  std::vector<infer::Prompt> prompts;
  const int64_t round = request.number + (request.is_validation ? kValidationRounds : 0);
  for (const int64_t row : request.prompts)
    prompts.push_back(online_.prompt_of(job_.config, row_of(request, row), round, std::ssize(prompts)));
  const config::CompletionSettings& settings = job_.config.online->completions;
  infer::GenerationOptions options{.stop_ids = online_.ends,
                                   .penalties = infer::penalties_of(*job_.model->text()),
                                   .keeps_stop = true,
                                   .logprobs = true,
                                   .logprob_temperature = settings.temperature};
  options.penalties.repetition = settings.repetition_penalty;  // TRL passes its own
  const Share share = share_of(request.prompts, ranks_);
  const std::span<const infer::Prompt> own = subspan_of(prompts, share.begin, share.end - share.begin);
  if (progress_)
    options.on_answer = [&](size_t done, const infer::Generated&) {
      progress_(static_cast<int64_t>(done) + 1, std::ssize(own));
    };
  std::function<bool(bool)> any_rank;
  if (session_.generation_gathers())
    any_rank = [&](bool mine) {
      const std::span<const std::string> all = ranks_.exchange([&] { return std::string(mine ? "more" : ""); });
      return std::any_of(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
    };
  for (const std::string& text : ranks_.exchange([&] { return to_text(session_.generate(own, options, any_rank)); }))
    add_completions(text, request.prompts, answer);
}

void GeneratedRounds::score(const RoundRequest& request, RoundAnswer& answer) {
  const std::string text = models_.of_first([&] {
    const double start = now_seconds();
    call_functions(request, answer);
    answer.reward_seconds = now_seconds() - start;
    return ranks_.are_several() ? to_text(answer) : std::string();
  });
  if (!ranks_.is_first()) take_rewards(text, answer);
}

void GeneratedRounds::call_functions(const RoundRequest& request, RoundAnswer& answer) {
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
  for (const rewards::RewardOutput& output : functions_->evaluate(input)) {
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

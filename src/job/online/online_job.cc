#include "job/online/online_job.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/math.h"
#include "base/random.h"
#include "base/text.h"
#include "config/load.h"
#include "data/batch.h"
#include "job/clips/clip_job.h"
#include "job/job.h"
#include "job/online/round_forecast.h"
#include "job/online/value_model.h"
#include "job/programs.h"
#include "job/reference.h"
#include "job/suggested_changes.h"
#include "job/training_data.h"
#include "model/token_ids.h"
#include "rewards/outside.h"
#include "text/token_ids.h"
#include "text/tokenizer_differences.h"

namespace spillway::train {
namespace {

using Json = nlohmann::ordered_json;

// The default number of completions that are decoded together: enough for efficient matrix products.
constexpr int64_t kUsuallyAtOnce = 64;

void check_rows(const std::vector<data::PromptRow>& rows, const config::OnlineSettings& online,
                const TextModel& model) {
  const int64_t context = std::min(online.context.value_or(INT64_MAX), model.max_position_embeddings);
  for (const data::PromptRow& row : rows) {
    text::check_token_ids(row.ids, model.vocab_size, row.where);
    if (std::ssize(row.ids) + online.completions.max_tokens > context)
      throw input_error(row.where,
                        "expected a prompt of at most {} tokens beside max_completion_length {} in a context of {}, "
                        "got {}; shorten it, or lower max_completion_length",
                        std::max<int64_t>(0, context - online.completions.max_tokens), online.completions.max_tokens,
                        context, row.ids.size());
  }
}

int64_t longest_prompt(const OnlineJob& job) {
  int64_t longest = 0;
  for (const auto* rows : {&job.training, &job.validation}) {
    for (const data::PromptRow& row : *rows) longest = std::max(longest, std::ssize(row.ids));
  }
  return longest;
}

std::vector<data::PromptRow> select(std::vector<data::PromptRow>& rows, const std::vector<int64_t>& numbers) {
  std::vector<data::PromptRow> result;
  for (const int64_t number : numbers) result.push_back(std::move(nth(rows, number)));
  return result;
}

void load_rows(const config::Config& config, int64_t vocab_size, const std::tm& now, OnlineJob& job) {
  data::RowOptions options = config.data.rows;
  options.vocabulary = vocab_size;
  options.now = now;
  // As in TRL's trainers.
  const bool adds_special_tokens = config.online->kind != config::OnlineKind::kOnlineDpo;
  const Json said = Json::parse(config.online->said.empty() ? "{}" : config.online->said);
  std::map<std::string, rewards::RowFunction> functions;
  const auto transform = [&](const std::string& name, std::vector<Json> records) {
    rewards::RowFunction& function =
        functions.try_emplace(name, name, fmt::format("datasets: type: {}", name), said, *config.rewards).first->second;
    return function.rows_of(std::move(records));
  };
  const auto load = [&](const std::vector<data::DatasetConfig>& datasets) {
    return data::load_prompts(datasets, options, *job.tokenizer, adds_special_tokens, transform);
  };
  job.training = load(config.data.datasets);
  if (!config.data.test_datasets.empty()) {
    job.validation = load(config.data.test_datasets);
  } else if (config.data.val_set_size > 0) {
    const data::RowSplit split =
        data::split_validation(std::ssize(job.training), config.data.val_set_size, config.data.validation_seed);
    job.validation = select(job.training, split.validation);
    job.training = select(job.training, split.training);
  }
}

int64_t longest_prompt_of(const infer::RewardModel& model, const OnlineJob& job) {
  const Json nothing = "";
  int64_t longest = 0;
  for (const auto* rows : {&job.training, &job.validation}) {
    for (const data::PromptRow& row : *rows)
      longest = std::max(longest, std::ssize(model.tokens_of(row.prompt, nothing)));
  }
  return longest;
}

// Returns the capacity of a reward model's program: as many tokens as a micro-batch of training, and at least the
// longest expected text, which is the longest prompt and a completion with twice the tokens in the model's own
// tokenizer.
infer::RewardRoom room_for(const JobRewardModel& model, const config::Config& config, const OnlineJob& job) {
  const int64_t longest = model.longest_prompt + 2 * config.online->completions.max_tokens;
  const int64_t texts = config.batches.micro_batch_size * config.online->completions_per_row();
  return {.tokens = std::max(longest, texts * job.sequence_len), .texts = 4 * texts};
}

std::vector<JobRewardModel> reward_models_of(const config::Config& config, const OnlineJob& job, const std::tm& now,
                                             int64_t vocab_size) {
  std::vector<JobRewardModel> models;
  for (const rewards::RewardEntry& entry : config.rewards->functions) {
    if (entry.kind != rewards::RewardEntry::Kind::kModel) continue;
    auto there = std::find_if(models.begin(), models.end(),
                              [&](const JobRewardModel& one) { return one.model->folder() == entry.folder; });
    if (there == models.end()) {
      const auto model = std::make_shared<infer::RewardModel>(entry, config.rewards->chat_template_kwargs, now);
      there = models.insert(there, {model, longest_prompt_of(*model, job), {}});
    }
    if (entry.reads_ids) expect_ids_of_policy(entry.where, *there->model->model(), entry.folder, vocab_size);
  }
  return models;
}

// Returns the tokens that end completions: those in the tokenizer's folder, in that of the adapter that training starts
// from, and those in the config. Throws InputError for one that the vocabulary does not have.
std::vector<int32_t> stop_ids_of(const config::Config& config, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.stop_ids();
  if (config.adapter && !config.adapter->model_dir.empty()) {
    const std::vector<int32_t> more = listed_ends(config.adapter->model_dir);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  for (const std::string& token : config.data.rows.eot_tokens.value_or(std::vector<std::string>())) {
    const std::optional<int32_t> id = tokenizer.token_to_id(token);
    if (!id)
      throw input_error("eot_tokens", "expected tokens of the vocabulary, got {}; add it to the tokenizer",
                        quote(token));
    ids.push_back(*id);
  }
  return ids;
}

// Warns of what transformers and TRL make of the tokenizer otherwise.
void say_what_others_do(const config::Config& config) {
  std::vector<std::string> said = {text::other_ids_in_transformers(config.tokenizer.folder)};
  if (config.online->kind == config::OnlineKind::kGrpo)
    said.push_back(text::other_answers_in_trl(config.tokenizer.folder));
  for (const std::string& one : said)
    if (!one.empty()) log_warning("{}", one);
}

// Reads the parts of the job that do not depend on the sizes of batches.
void read_prompts(const config::Config& config, int64_t vocab_size, const std::tm& now, OnlineJob& job) {
  say_what_others_do(config);
  job.tokenizer = std::make_shared<text::Tokenizer>(
      text::Tokenizer::load(config.tokenizer.folder, config.tokenizer.special_tokens));
  job.ends = stop_ids_of(config, *job.tokenizer);
  load_rows(config, vocab_size, now, job);
  job.reward_models = reward_models_of(config, job, now, vocab_size);
}

}  // namespace

infer::Prompt OnlineJob::prompt_of(const config::Config& config, const data::PromptRow& row, int64_t round,
                                   int64_t number) const {
  const config::CompletionSettings& c = config.online->completions;
  // One stream of random numbers for each completion of a run.
  const auto bits =
      philox(static_cast<uint64_t>(config.seed), static_cast<uint64_t>(round), static_cast<uint64_t>(number));
  return {row.ids,
          {.max_new_tokens = c.max_tokens,
           .min_new_tokens = c.min_tokens,
           .temperature = c.temperature,
           .top_p = c.top_p,
           .top_k = c.top_k,
           .min_p = c.min_p,
           .seed = (uint64_t{bits[0]} << 32) | bits[1]}};
}

const OnlineJob& online_of(const Job& job) { return dynamic_cast<const OnlineJob&>(*job.kind); }

void OnlineJob::take_model(Job& job) const {
  check_no_video_keys(job.config);
  check_predicts_tokens(text_of(*job.model, "base_model"), "base_model");
}

RowShape OnlineJob::read(const RunKind* before, Job& job) {
  const config::Config& config = job.config;
  const config::OnlineSettings& online = *config.online;
  const TextModel& model = text_of(*job.model, "base_model");
  if (const auto* known = dynamic_cast<const OnlineJob*>(before)) {
    *this = *known;
  } else {
    read_prompts(config, model.vocab_size, job.now, *this);
  }
  check_rows(training, online, model);
  check_rows(validation, online, model);
  (void)RoundSchedule(config, std::ssize(training));
  objective = online_objective(online, config.batches.gradient_accumulation_steps);
  const int64_t round = online.round_size(config.batches.micro_batch_size);
  sequence_len = longest_prompt(*this) + online.completions.max_tokens;
  completions_of_rank = div_ceil(round / online.num_generations, config.ranks.count) * online.num_generations;
  most_at_once = std::min(online.sequences_at_once.value_or(kUsuallyAtOnce), completions_of_rank);
  for (JobRewardModel& one : reward_models) one.room = room_for(one, config, *this);
  job.config.batches.sequence_len = sequence_len;
  return {.sequences = objective->sequences_per_row()};
}

void OnlineJob::take_objective(Job& job) const {
  const config::OnlineSettings& online = *job.config.online;
  job.graph.objective = objective;
  if (objective->has_reference())
    job.graph.reference = {.model = policy_at_first(job.config, *job.model, job.graph.model),
                           .is_synced = online.sync.has_value()};
  if (online.kind == config::OnlineKind::kPpo) job.graph.value = value_model(job.config, *job.model, job.graph.model);
  for (const JobRewardModel& one : reward_models) {
    ModelBeside beside{one.model->folder(), one.model->model(), one.model->options()};
    beside.options.tokens = one.room.tokens;
    beside.options.max_sequences = one.room.texts;
    beside.options.sequence_len = one.room.tokens / std::max<int64_t>(1, one.room.texts);
    beside.options.copy_prefix = fmt::format("reward.{}.", job.graph.beside.size());
    for (const Parameter& p : parameters_of(*beside.model, beside.options)) beside.options.copies.insert(p.name);
    job.graph.beside.push_back(std::move(beside));
  }
}

TrainingData OnlineJob::load(const Job&, const std::optional<std::tm>&,
                             const std::function<void(int64_t records)>&) const {
  return {};
}

std::string OnlineJob::method(const Job& job) const { return job.config.online->name; }

CardWords OnlineJob::card(const Job& job) const {
  return {job.config.online->name, "online reinforcement learning", "text-generation"};
}

int64_t OnlineJob::updates_per_step(const Job& job) const { return job.config.online->updates_per_step(); }

RunGeneration OnlineJob::generation(const Job& job) const {
  return {.at_once = most_at_once,
          .sequence_len = sequence_len,
          .gathers_weights = job.config.online->gathers_weights,
          .completions = &job.config.online->completions,
          .decode_name = "generation",
          .prompt_name = "prompts of a round"};
}

// A prompt is read once for all its completions, except for its last token, which is the first that is decoded.
void OnlineJob::count_runs(const Job& job, std::span<JobProgram> programs) const {
  using Kind = JobProgram::Kind;
  const config::OnlineSettings& online = *job.config.online;
  const int64_t longest = online.completions.max_tokens;
  const int64_t groups = completions_of_rank / online.num_generations;  // of a rank, whole
  const auto prompts = static_cast<double>(groups * (sequence_len - longest - 1));
  for (JobProgram& program : programs) {
    const int64_t room = program.graph.tokens();
    switch (program.kind) {
      case Kind::kEvaluation:
        break;
      case Kind::kScoring:
        program.runs_per_round = static_cast<double>(div_ceil(online.steps_per_generation, job.config.ranks.count));
        break;
      case Kind::kReward:
        program.runs_per_round =
            static_cast<double>(completions_of_rank) * static_cast<double>(sequence_len) / static_cast<double>(room);
        break;
      case Kind::kDecode:
        program.runs_per_round = static_cast<double>(div_ceil(completions_of_rank, room) * longest);
        break;
      case Kind::kPrompt:
        program.runs_per_round = prompts / static_cast<double>(room);
        break;
      case Kind::kGather:
        program.runs_per_round = 1;
        break;
    }
  }
}

std::optional<PlanContext::Generation> OnlineJob::forecast(const Job& job, std::span<const JobProgram> programs,
                                                           const Machine& machine) const {
  return forecast_round(job, programs, machine);
}

// A step has the same completions.
void OnlineJob::add_to_smaller_batches(const config::LoadedConfig& loaded, int64_t parts,
                                       std::vector<config::ConfigOverride>& change) const {
  if (!loaded.given.contains("steps_per_generation")) return;
  const int64_t steps = loaded.config.online->steps_per_generation / loaded.config.ranks.count * parts;
  change.push_back({spelled_key(loaded, "steps_per_generation"), fmt::format("{}", steps)});
}

}  // namespace spillway::train

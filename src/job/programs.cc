#include "job/programs.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "infer/scoring/reward_program.h"
#include "job/micro_batch_group.h"
#include "rewards/outside.h"

namespace spillway::train {
namespace {

using Kind = JobProgram::Kind;

// Runs the passes whose scores are known before training. Before the first step the weights in training are those of
// the reference, so that training needs no second copy of them.
JobProgram scoring_program(const Job& job, const TrainingGraph& training) {
  JobProgram result{.kind = Kind::kScoring,
                    .name = job.online ? "scores of a round" : "precompute_ref_log_probs",
                    .model = job.model.get()};
  result.graph.name = "reference";
  ReferenceOptions reference = job.graph.reference;
  if (reference.is_precomputed && !reference.other) reference.model->copies.clear();
  ObjectiveBuilder objective(*job.model, job.graph.model, job.graph.objective, reference, job.graph.value);
  Builder builder(result.graph, {.name = std::string(objective.known_passes().front().section)});
  builder.adopt(training.adopted());
  result.objective = objective.append_known(builder);
  result.group = {result.objective};
  if (job.online)
    result.runs_per_round =
        static_cast<double>(div_ceil(job.config.online->steps_per_generation, job.config.ranks.count));
  return result;
}

// Runs a model of TrainingGraphOptions::beside.
JobProgram reward_program(const Job& job, size_t number, const TrainingGraph& training) {
  const auto& [model, longest_prompt, room] = job.online->reward_models[number];
  JobProgram result{.kind = Kind::kReward,
                    .name = fmt::format("the reward model {}", rewards::file_name(model->folder())),
                    .model = model->model().get()};
  result.graph.name = "rewards";
  Builder builder(result.graph, {.name = "score"});
  builder.adopt(training.adopted());
  ModelOptions options = job.graph.beside[number].options;
  options.tokens = room.tokens;
  options.max_sequences = room.texts;
  options.sequence_len = room.tokens / std::max<int64_t>(1, room.texts);
  const ModelGraph built = model->model()->build(builder, options);
  infer::append_token_scores(builder, built);
  result.objective.columns = built.columns;
  result.group = {result.objective};
  result.runs_per_round = static_cast<double>(job.online->completions_of_rank) *
                          static_cast<double>(job.online->sequence_len) / static_cast<double>(room.tokens);
  return result;
}

// A prompt is read once for all its completions, except for its last token, which is the first that is decoded.
void count_runs(const Job& job, std::vector<JobProgram>& programs) {
  const config::OnlineSettings& online = *job.config.online;
  const int64_t completions = job.online->completions_of_rank, longest = online.completions.max_tokens;
  const int64_t read = completions / online.num_generations * (job.online->sequence_len - longest - 1);
  for (JobProgram& program : programs) {
    if (program.kind == Kind::kGather) {
      program.runs_per_round = 1;
      continue;
    }
    const int64_t at_once = program.graph.tokens();
    program.runs_per_round = program.kind == Kind::kPrompt
                                 ? static_cast<double>(read) / static_cast<double>(at_once)
                                 : static_cast<double>(div_ceil(completions, at_once) * longest);
  }
}

// Cuts the weights that training has cut.
void cut_weights(const TrainingGraph& training, std::vector<JobProgram>& programs) {
  if (training.split_weights.empty()) return;
  const int ranks = training.parts.begin()->second.ranks;
  for (JobProgram& program : programs) split_weights(program.graph, ranks, training.split_weights);
}

}  // namespace

JobProgram evaluation_program(const Model& model, const TrainingGraphOptions& options, const TrainingGraph& training) {
  JobProgram result{.name = "evaluation", .model = &model};
  result.graph.name = "evaluation";
  const ModelOptions without_dropout = options.model.without_dropout();
  ObjectiveBuilder objective(model, without_dropout, options.objective, options.reference, options.value);
  const Section evaluate{.name = "evaluate"};
  Builder builder(result.graph, objective.first_section(evaluate));
  builder.adopt(training.adopted());
  objective.append_passes(builder, evaluate);
  const ModelGraph built = model.build(builder, without_dropout);
  const std::optional<ModelGraph> value = objective.append_value_model(builder);
  result.objective = objective.append_loss(builder, built, value, ops::LossGradients::kNone);
  result.group = {result.objective};
  return result;
}

void repeat(JobProgram& program, int64_t count) {
  program.group = repeat_micro_batches(program.graph, program.objective, count).group;
  program.runs_per_round /= static_cast<double>(count);
}

std::vector<JobProgram> row_programs(const Job& job, const TrainingGraph& training) {
  std::vector<JobProgram> programs;
  programs.push_back(evaluation_program(*job.model, job.graph, training));
  const bool scores_rounds = job.online && !job.online->objective->passes().empty();
  if (job.graph.reference.is_precomputed || scores_rounds) programs.push_back(scoring_program(job, training));
  for (size_t i = 0; i < job.graph.beside.size(); ++i) programs.push_back(reward_program(job, i, training));
  cut_weights(training, programs);
  return programs;
}

infer::GenerationSizes generation_sizes_of(const Job& job, int64_t at_once) {
  std::vector<int64_t> lengths;
  for (const infer::Prompt& prompt : job.samples.prompts) lengths.push_back(prompt.sequence_tokens());
  if (job.online) append_repeated(lengths, at_once, job.online->sequence_len);
  return infer::generation_sizes(std::move(lengths), job.online ? std::max<int64_t>(at_once, 1) : infer::kMaxSequences);
}

std::vector<JobProgram> generation_programs(const Job& job, const TrainingGraph& training,
                                            const infer::GenerationSizes& sizes,
                                            const infer::ParameterNames& gathered) {
  auto [decode, prompt, gather] =
      infer::build_generation_graphs(*job.model, job.graph.model, sizes, &training.adopted(), gathered);
  std::vector<JobProgram> programs;
  programs.push_back({.kind = Kind::kDecode,
                      .name = job.online ? "generation" : "the answers to sample_prompts",
                      .model = job.model.get(),
                      .graph = std::move(decode.graph),
                      .cached = std::move(decode.model),
                      .choice = decode.choice});
  programs.push_back({.kind = Kind::kPrompt,
                      .name = job.online ? "prompts of a round" : "sample_prompts",
                      .model = job.model.get(),
                      .graph = std::move(prompt.graph),
                      .cached = std::move(prompt.model)});
  if (gather)
    programs.push_back(
        {.kind = Kind::kGather, .name = "gathered weights", .model = job.model.get(), .graph = std::move(*gather)});
  if (job.online) count_runs(job, programs);
  cut_weights(training, programs);
  return programs;
}

int64_t peak_bytes(std::span<const JobProgram> programs, Tier tier) {
  int64_t most = 0;
  for (const JobProgram& program : programs) most = std::max(most, nth(program.plan.peaks, tier).bytes);
  return most;
}

}  // namespace spillway::train

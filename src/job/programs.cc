#include "job/programs.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
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
                    .name = job.graph.reference.is_precomputed ? "precompute_ref_log_probs" : "scores of a round",
                    .model = job.model.get()};
  result.graph.name = "reference";
  ReferenceOptions reference = job.graph.reference;
  if (reference.is_precomputed && !reference.other) reference.model->copies.clear();
  ObjectiveBuilder objective(*job.model, job.graph.model, job.graph.objective, reference, job.graph.value);
  Builder builder(result.graph, {.name = std::string(objective.known_passes().front().section)});
  builder.adopt(training.adopted());
  result.objective = objective.append_known(builder);
  result.group = {result.objective};
  return result;
}

JobProgram reward_program(const ModelBeside& beside, const TrainingGraph& training) {
  JobProgram result{.kind = Kind::kReward,
                    .name = fmt::format("the reward model {}", rewards::file_name(beside.folder)),
                    .model = beside.model.get()};
  result.graph.name = "rewards";
  Builder builder(result.graph, {.name = "score"});
  builder.adopt(training.adopted());
  const ModelGraph built = beside.model->build(builder, beside.options);
  infer::append_token_scores(builder, built);
  result.objective.columns = built.columns;
  result.group = {result.objective};
  return result;
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
  const std::vector<ScorePass> passes = job.graph.objective->passes();
  const bool scores_rounds =
      std::any_of(passes.begin(), passes.end(), [](const ScorePass& pass) { return pass.is_run_before; });
  if (job.graph.reference.is_precomputed || scores_rounds) programs.push_back(scoring_program(job, training));
  for (const ModelBeside& beside : job.graph.beside) programs.push_back(reward_program(beside, training));
  job.kind->count_runs(job, programs);
  cut_weights(training, programs);
  return programs;
}

infer::GenerationSizes generation_sizes_of(const Job& job, int64_t at_once) {
  std::vector<int64_t> lengths;
  for (const infer::Prompt& prompt : job.samples.prompts) lengths.push_back(prompt.sequence_tokens());
  append_repeated(lengths, at_once, job.kind->generation(job).sequence_len);
  return infer::generation_sizes(std::move(lengths), at_once > 0 ? at_once : infer::kMaxSequences);
}

std::vector<JobProgram> generation_programs(const Job& job, const TrainingGraph& training,
                                            const infer::GenerationSizes& sizes,
                                            const infer::ParameterNames& gathered) {
  auto [decode, prompt, gather] =
      infer::build_generation_graphs(*job.model, job.graph.model, sizes, &training.adopted(), gathered);
  const RunGeneration generation = job.kind->generation(job);
  std::vector<JobProgram> programs;
  programs.push_back({.kind = Kind::kDecode,
                      .name = std::string(generation.decode_name),
                      .model = job.model.get(),
                      .graph = std::move(decode.graph),
                      .cached = std::move(decode.model),
                      .choice = decode.choice});
  programs.push_back({.kind = Kind::kPrompt,
                      .name = std::string(generation.prompt_name),
                      .model = job.model.get(),
                      .graph = std::move(prompt.graph),
                      .cached = std::move(prompt.model)});
  if (gather)
    programs.push_back(
        {.kind = Kind::kGather, .name = "gathered weights", .model = job.model.get(), .graph = std::move(*gather)});
  job.kind->count_runs(job, programs);
  cut_weights(training, programs);
  return programs;
}

int64_t peak_bytes(std::span<const JobProgram> programs, Tier tier) {
  int64_t most = 0;
  for (const JobProgram& program : programs) most = std::max(most, nth(program.plan.peaks, tier).bytes);
  return most;
}

}  // namespace spillway::train

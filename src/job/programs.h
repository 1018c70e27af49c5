// The programs that run beside training in a job's memory. Their graphs read the persistent values that they share with
// the training graph in the same places (Builder::adopt).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/generation/generation_graphs.h"
#include "job/job.h"
#include "job/training_graph.h"
#include "plan/planner.h"

namespace spillway::train {

struct JobProgram {
  enum class Kind {
    kEvaluation,  // the forward operations of the model and the loss; the last section is the model's
    kScoring,     // scores of rows or completions before they are trained on: a section for each pass
    kReward,      // a reward model; the result is the score of each token, f32 [tokens, 1]
    kDecode,      // of generation
    kPrompt,
    kGather,  // GenerationGraphs::gather
  };
  Kind kind = Kind::kEvaluation;
  std::string name;              // for those who read the plan
  const Model* model = nullptr;  // that it runs; belongs to the job
  Graph graph = {};
  AppendedObjective objective = {};  // what fills a program that reads rows, and its results
  // Of a program that reads rows: the values of each micro-batch that a run computes; the first has the objective's
  // own.
  std::vector<MicroBatchValues> group = {};
  CachedModelGraph cached = {};    // what fills a program that generates
  infer::TokenChoice choice = {};  // the same of kDecode
  // The number of runs in a round of completions, counted in runs with all the tokens that it has room for.
  double runs_per_round = 0;
  Plan plan = {};

  [[nodiscard]] bool generates() const { return kind >= Kind::kDecode; }
};

// Returns evaluation as a program without dropout. It computes no gradients and saves nothing for a backward pass.
// Passes that score rows come before its last section, as in training.
[[nodiscard]] JobProgram evaluation_program(const Model& model, const TrainingGraphOptions& options,
                                            const TrainingGraph& training);

// Makes a program that reads rows compute `count` micro-batches in a run, layer by layer. Each has the bits that it has
// alone, and a run may have fewer. REQUIRES: it computes one.
void repeat(JobProgram& program, int64_t count);

// Each returns programs of the job without plans: those that read rows (evaluation first), and those that generate.
[[nodiscard]] std::vector<JobProgram> row_programs(const Job& job, const TrainingGraph& training);
// Copies of the weights `gathered` are filled by kGather. REQUIRES: the job has prompts to answer.
[[nodiscard]] std::vector<JobProgram> generation_programs(const Job& job, const TrainingGraph& training,
                                                          const infer::GenerationSizes& sizes,
                                                          const infer::ParameterNames& gathered = {});
// Returns the capacities with which up to `at_once` completions are generated together; 0: of sample prompts alone.
[[nodiscard]] infer::GenerationSizes generation_sizes_of(const Job& job, int64_t at_once);

// Returns the largest peak of a tier over all programs.
[[nodiscard]] int64_t peak_bytes(std::span<const JobProgram> programs, Tier tier);

}  // namespace spillway::train

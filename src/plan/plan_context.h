// What is known of a job beside its plan, for those who read the plan: as a page (plan/print.h), as JSON
// (plan/plan_json.h), in a report.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "plan/planner.h"

namespace spillway {

struct PlanContext {
  std::string title;  // "SmolLM2-135M · LoRA r=16, all linear · 4 x 512 tokens per micro-batch · cpu, 2 cores"
  Budget budget;      // as the user asked; the plan may have been given less
  int64_t accumulation = 1;   // micro-batches per update of the weights
  int64_t updates = 1;        // per step
  int64_t process_bytes = 0;  // what the process will take, arenas and all; 0: not known
  std::vector<FrontierPoint> frontier;
  // The keys that set the budgets, for messages.
  std::array<std::string, kBudgetedTiers> budget_keys = {"memory.device", "memory.host", "memory.disk"};
  // Of an objective with a reference: what that is, and the frozen copies that it keeps of weights in training.
  struct Reference {
    std::string text;                          // "frozen copies", "the model without the adapter"
    std::array<int64_t, kTiers> copy_bytes{};  // by the tier that they live in
  };
  std::optional<Reference> reference;
  std::string value_model;  // of an objective that trains a second model: what that is
  // Another program of the job, which runs in the same memory.
  struct Program {
    std::string name;
    std::array<int64_t, kBudgetedTiers> bytes{};  // peaks of the tiers
  };
  std::vector<Program> beside;
  // Of a job that generates what it is trained on.
  struct Generation {
    int64_t sequences_at_once = 0, cache_bytes = 0;
    bool is_streamed = false;  // weights come to the device for each token position
    std::array<int64_t, kBudgetedTiers> peak_bytes{};
    // Of a round, predicted.
    int64_t tokens = 0, bytes_streamed = 0;
    double seconds = 0;  // of generating it
    // What a round consists of before it is trained on, in order.
    struct Phase {
      enum class Of { kGeneration, kReward, kScores } of = Of::kGeneration;
      std::string name;
      int64_t program = -1;          // of the job's programs the one that runs; below 0: the host works alone
      double runs = 0, seconds = 0;  // of all of them
    };
    std::vector<Phase> phases;
    double micro_batches = 0;  // that are trained on it

    [[nodiscard]] double phase_seconds() const {
      double sum = 0;
      for (const Phase& phase : phases) sum += phase.seconds;
      return sum;
    }
  };
  std::optional<Generation> generation;
  // A change of the config, and what the job takes with it.
  struct Change {
    std::string text;  // "memory.device: 612MiB", "micro_batch_size: 2, gradient_accumulation_steps: 2"
    std::array<int64_t, kBudgetedTiers> bytes{};  // peaks of the tiers
    double step_seconds = 0;                      // predicted
    std::string trains = {};  // what is trained then, where that is something else: "over weights in 4 bits"
  };
  std::vector<Change> nearest;  // settings that fit, where this does not; the best first
  std::optional<Change> least;  // where none does: what comes nearest, with all that it needs

  // The program beside training that needs the most of a tier, where that is more than training needs; else null.
  [[nodiscard]] const Program* largest_beside(const Plan& plan, Tier tier) const;
  // What a tier's budget would have to be for this plan. REQUIRES: the tier has a budget.
  [[nodiscard]] int64_t needed_bytes(const Plan& plan, Tier tier) const {
    return *budget.of(tier) + nth(plan.missing_bytes, tier);
  }
  [[nodiscard]] int64_t micro_batches() const { return accumulation * updates; }  // per step
  // How often a section runs in a step.
  [[nodiscard]] int64_t runs_per_step(Repeats repeats) const {
    return repeats == Repeats::kStep ? updates : micro_batches();
  }
  // What programs beside training take of a step: its share of rounds of completions.
  [[nodiscard]] double round_seconds() const {
    if (!generation) return 0;
    return generation->phase_seconds() * static_cast<double>(micro_batches()) / generation->micro_batches;
  }
  // Of a step, from what a Simulation or a FrontierPoint says of its parts.
  template <typename Timed>
  [[nodiscard]] double step_seconds(const Timed& timed) const {
    return round_seconds() + static_cast<double>(updates) * timed.step_seconds(accumulation);
  }
  [[nodiscard]] double stall_seconds(const Simulation& simulation) const {
    return static_cast<double>(updates) * simulation.stall_seconds(accumulation);
  }
};

}  // namespace spillway

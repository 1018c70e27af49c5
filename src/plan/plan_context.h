// The facts of a job beside its plan, for code that shows the plan: as a page (plan/print.h), as JSON
// (plan/plan_json.h), in a report.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/math.h"
#include "plan/planner.h"

namespace spillway {

struct PlanContext {
  std::string title;    // "SmolLM2-135M · LoRA r=16, all linear · 4 x 512 tokens per micro-batch · cpu, 2 cores"
  Budget budget;        // as the user set it; the plan may have been given less
  int64_t ranks = 1;    // that run the plan, each with micro-batches, or a part of them, of its own
  int zero_stage = 0;   // of ZeRO: what these ranks split
  int64_t context = 1;  // neighbouring ranks that share each micro-batch
  int64_t copies = 1;   // groups of these ranks, of which each has all of what is split
  int64_t accumulation = 1;   // micro-batches of a rank per update of the weights
  int64_t group = 1;          // of these, those that a run of the sections computes block by block
  int64_t updates = 1;        // per step
  bool sums_by_host = false;  // gradients of a host's ranks are added to each other first
  // Another order of the micro-batches in which training was planned, too.
  struct Order {
    int64_t group = 1;  // as PlanContext::group
    bool fits = false;
    double step_seconds = 0;                      // predicted
    std::array<int64_t, kBudgetedTiers> bytes{};  // peaks of the tiers
  };
  std::vector<Order> other_orders;
  // Set for ranks on several hosts: what the two orders of the ranks' gradients cost.
  struct HostSums {
    struct Cost {
      int64_t between_hosts_bytes = 0;  // of gradients, that a rank sends in a step
      double step_seconds = 0;          // predicted
    };
    int64_t together = 1;  // ranks of a host
    Cost ordered, by_host;
  };
  std::optional<HostSums> host_sums;
  int64_t process_bytes = 0;  // predicted size of the process, arenas and all; 0: not known
  std::vector<FrontierPoint> frontier;
  // The config keys that set the budgets, for messages.
  std::array<std::string, kBudgetedTiers> budget_keys = {"memory.device", "memory.host", "memory.disk"};
  // Set if the objective has a reference: its kind, and the frozen copies that it keeps of weights in training.
  struct Reference {
    std::string text;                          // "frozen copies", "the model without the adapter"
    std::array<int64_t, kTiers> copy_bytes{};  // by the tier that they live in
  };
  std::optional<Reference> reference;
  std::string value_model;  // set if the objective trains a second model: its description
  // Another program of the job, which runs in the same memory.
  struct Program {
    std::string name;
    std::array<int64_t, kBudgetedTiers> bytes{};  // peaks of the tiers
    int64_t group = 1;                            // micro-batches that a run computes
  };
  std::vector<Program> beside;
  // Set if the job generates its training data.
  struct Generation {
    int64_t sequences_at_once = 0, cache_bytes = 0;
    bool is_streamed = false;  // weights come to the device for each token position
    std::array<int64_t, kBudgetedTiers> peak_bytes{};
    // Predicted, for one round.
    int64_t tokens = 0, bytes_streamed = 0;
    double seconds = 0;  // of generating it
    // The phases of a round before it is trained on, in order.
    struct Phase {
      enum class Of { kGeneration, kReward, kScores } of = Of::kGeneration;
      std::string name;
      int64_t program = -1;          // the index of the program beside training; below 0: the host works alone
      double runs = 0, seconds = 0;  // both for all runs together
    };
    std::vector<Phase> phases;
    double micro_batches = 0;  // the number that is trained on it

    [[nodiscard]] double phase_seconds() const {
      double sum = 0;
      for (const Phase& phase : phases) sum += phase.seconds;
      return sum;
    }
  };
  std::optional<Generation> generation;
  // A suggested change of the config, and what the job needs with it.
  struct Change {
    std::string text;  // "memory.device: 612MiB", "micro_batch_size: 2, gradient_accumulation_steps: 2"
    std::array<int64_t, kBudgetedTiers> bytes{};  // peaks of the tiers
    double step_seconds = 0;                      // predicted
    std::string trains = {};                      // what is trained then, if that differs: "over weights in 4 bits"
  };
  std::vector<Change> nearest;  // changes that fit, if this does not; the best first
  std::optional<Change> least;  // if none fits: the change that comes nearest, with all that it needs

  // Returns the program beside training that needs the most of a tier, if that is more than training needs; else null.
  [[nodiscard]] const Program* largest_beside(const Plan& plan, Tier tier) const;
  // Returns the budget of a tier that this plan would need. REQUIRES: the tier has a budget.
  [[nodiscard]] int64_t needed_bytes(const Plan& plan, Tier tier) const {
    return *budget.of(tier) + nth(plan.missing_bytes, tier);
  }
  [[nodiscard]] int64_t runs() const { return div_ceil(accumulation, group); }            // per update
  [[nodiscard]] int64_t micro_batches() const { return accumulation * updates; }          // of a rank per step
  [[nodiscard]] int64_t micro_batches_of_all() const { return micro_batches() * ranks; }  // the same of all ranks
  // Returns how often a section runs in a step.
  [[nodiscard]] int64_t runs_per_step(Repeats repeats) const {
    return repeats == Repeats::kStep ? updates : runs() * updates;
  }
  // Returns the seconds that programs beside training take of a step: its share of rounds of completions.
  [[nodiscard]] double round_seconds() const {
    if (!generation) return 0;
    return generation->phase_seconds() * static_cast<double>(micro_batches()) / generation->micro_batches;
  }
  // Each returns the seconds of a step, given the times of its parts; that of a point in the point's own order.
  [[nodiscard]] double step_seconds(const Simulation& simulation) const {
    return round_seconds() + static_cast<double>(updates) * simulation.step_seconds(runs());
  }
  [[nodiscard]] double step_seconds(const FrontierPoint& point) const {
    const int64_t runs_of_point = div_ceil(accumulation, point.group);
    return round_seconds() + static_cast<double>(updates) * point.step_seconds(runs_of_point);
  }
  [[nodiscard]] double stall_seconds(const Simulation& simulation) const {
    return static_cast<double>(updates) * simulation.stall_seconds(runs());
  }
};

}  // namespace spillway

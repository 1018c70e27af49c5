// A program that runs the forward passes of models, in its own memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "data/batch.h"
#include "infer/inference_model.h"
#include "infer/inference_plan.h"
#include "runtime/executor.h"

namespace spillway::infer {

class InferenceProgram {
 public:
  // Plans, and reads the weights. With a budget, a plan may take several batches at a time. `sizes` are the capacities
  // of the stream; dtype and adapter are the model's. `finish` appends columns, operations and results after the
  // model's forward pass. Borrows pool and device. Throws InputError if the budget is too small, MachineError if the
  // device has too little memory.
  InferenceProgram(InferenceModel model, const ModelOptions& sizes, const InferenceBudget& budget,
                   const std::function<void(Builder&, ModelGraph&)>& finish, ThreadPool& pool, Device& device);
  // Runs several models that read the same columns, each in its own section; one plan shares the memory between them.
  // Calls `finish` for each.
  InferenceProgram(std::vector<InferenceModel> models, const ModelOptions& sizes, const InferenceBudget& budget,
                   const std::function<void(Builder&, ModelGraph&)>& finish, ThreadPool& pool, Device& device);

  // Runs one model. REQUIRES: the batch fits the capacities and has at least one token.
  void run(const data::MicroBatch& batch, size_t model = 0) { run({&batch, 1}, model); }
  // Runs one model on several batches, layer by layer, so that weights which are read from files come once for all of
  // them; each has the bits of a run of its own. REQUIRES: as above, for each of 1 to together() batches.
  void run(std::span<const data::MicroBatch> batches, size_t model = 0);
  // Returns the number of batches that a run may have: several where that hides what it reads, within the budget.
  [[nodiscard]] int64_t together() const { return std::ssize(group_); }
  // Returns a result of the last run, of a batch of it. Results are numbered through all models. It may have more rows
  // than the batch.
  [[nodiscard]] TensorView result(size_t index, size_t batch = 0) const {
    return executor_->result(batch * (graph_.results.size() / group_.size()) + index);
  }
  [[nodiscard]] const Model& model() const { return *models_.front().model; }

 private:
  using Columns = std::vector<BatchColumn>;

  void build(const ModelOptions& sizes, const InferenceBudget& budget,
             const std::function<void(Builder&, ModelGraph&)>& finish);
  // Returns true if experts should come and go by themselves: products with few experts each are more operations, so
  // only where not everything can stay.
  [[nodiscard]] bool waits_for_experts(const InferenceBudget& budget, int threads, const Device& device) const;
  void plan(const InferenceBudget& budget, int threads, const Device& device);

  std::vector<InferenceModel> models_;
  Graph graph_;
  std::vector<ModelGraph> built_;            // of each model
  std::vector<std::vector<Columns>> group_;  // of each batch of a run, by model
  StoredWeights stored_;
  Plan plan_;
  std::optional<Executor> executor_;
};

}  // namespace spillway::infer

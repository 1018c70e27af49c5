// The forward passes of models as a program of its own, in memory of its own: what is run and not trained.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  // `sizes` are the capacities of the stream; dtype and adapter are the model's. `finish` appends what follows the
  // model's forward pass, columns and results. Plans, and reads the weights. Pool and device are borrowed. Throws
  // InputError for a budget that nothing fits, MachineError where the device has too little memory.
  InferenceProgram(InferenceModel model, const ModelOptions& sizes, const InferenceBudget& budget,
                   const std::function<void(Builder&, ModelGraph&)>& finish, ThreadPool& pool, Device& device);
  // Of several models that read the same columns, each a section: one plan shares the memory between them. `finish`
  // is called for each.
  InferenceProgram(std::vector<InferenceModel> models, const ModelOptions& sizes, const InferenceBudget& budget,
                   const std::function<void(Builder&, ModelGraph&)>& finish, ThreadPool& pool, Device& device);

  // One model. REQUIRES: the batch has no more tokens and sequences than there is room for, and at least one token.
  void run(const data::MicroBatch& batch, size_t model = 0);
  // Of the last run: the results of all models are counted through. It may have room for more rows than the batch has.
  [[nodiscard]] TensorView result(size_t index) const { return executor_->result(index); }
  [[nodiscard]] const Model& model() const { return *models_.front().model; }

 private:
  void build(const ModelOptions& sizes, const std::function<void(Builder&, ModelGraph&)>& finish);

  std::vector<InferenceModel> models_;
  Graph graph_;
  std::vector<ModelGraph> built_;  // of each model
  StoredWeights stored_;
  Plan plan_;
  std::optional<Executor> executor_;
};

}  // namespace spillway::infer

// The whole optimizer step of supervised fine-tuning as one Graph: forward, fused loss, backward, clipping, update.
#pragma once

#include <cstddef>
#include <vector>

#include "model/transformer.h"
#include "ops/adamw/adamw.h"
#include "ops/sgd/sgd.h"
#include "train/config.h"

namespace spillway::train {

struct TrainingGraphOptions {
  DecoderOptions decoder;
  Optimizer optimizer = Optimizer::kAdamW;
  ops::AdamwOptions adamw;  // weight_decay counts for both optimizers, on the parameters that transformers decays
  double sgd_momentum = 0;
  double max_grad_norm = 1;  // 0: no clipping
  bool accumulates = false;  // several micro-steps an update: gradients are persistent f32 sums
};

// The persistent values that belong to one trained weight; kNone where the job has none.
struct TrainedWeight {
  ValueId weight = kNone;
  ValueId master = kNone;  // "master.<weight>": f32, where the weight is a bf16 working copy
  // "exp_avg.<weight>", "exp_avg_sq.<weight>" (AdamW) or "momentum_buffer.<weight>" (SGD): f32
  ValueId m = kNone, v = kNone, momentum = kNone;
  ValueId accumulator = kNone;  // "gradient.<weight>": f32
};

struct TrainingGraph {
  Graph graph;
  Decoder decoder;
  std::vector<TrainedWeight> trained;
  // Batch values beside decoder.inputs.
  ValueId labels = kNone;         // i32 [T]: what each token predicts; negative: nothing
  ValueId loss_scale = kNone;     // f32 [1]: 1 / targets of the whole step
  ValueId learning_rate = kNone;  // f32 [1]
  ValueId step = kNone;           // i32 [1]: 1 in the first step
  // Into Graph::results.
  size_t loss_result = 0;  // f32 [1] after the forward section: the micro-step's share of the step's mean loss
  size_t norm_result = 0;  // f32 [1] after the update section: the gradients' norm before clipping
};

[[nodiscard]] TrainingGraph build_training_graph(const ModelConfig& model, const TrainingGraphOptions& options);

}  // namespace spillway::train

// Jobs in memory on the tiny models of tests/golden/models, set up as `train` sets them up.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "job/initial_state.h"
#include "model/adapter.h"
#include "model/decoder/decoder.h"
#include "tests/support/golden_models.h"
#include "train/session.h"

namespace spillway::testing {

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_file(path, int64_t{16} << 20));
}

// batches.json: "check" is one micro-batch, "train" a list of steps, each a list of micro-batches.
inline const nlohmann::json& tiny_batches() {
  static const nlohmann::json kBatches = read_json(kGoldenModels / "batches.json");
  return kBatches;
}

// A micro-batch of the golden file as one stream.
struct FlatBatch {
  std::vector<int32_t> ids, labels, positions, seq_offsets;
  int64_t targets = 0;

  explicit FlatBatch(const nlohmann::json& sequences) {
    for (const nlohmann::json& sequence : sequences) {
      seq_offsets.push_back(static_cast<int32_t>(ids.size()));
      const auto tokens = sequence["input_ids"].get<std::vector<int32_t>>();
      const auto wanted = sequence["labels"].get<std::vector<int32_t>>();
      for (size_t i = 0; i < tokens.size(); ++i) {
        ids.push_back(tokens[i]);
        positions.push_back(static_cast<int32_t>(i));
        labels.push_back(i + 1 < tokens.size() ? wanted[i + 1] : -100);
        targets += labels.back() >= 0;
      }
    }
    seq_offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  [[nodiscard]] infer::Batch batch() const {
    const auto bytes = [](const std::vector<int32_t>& list) { return std::as_bytes(std::span(list)); };
    return {.tokens = std::ssize(ids),
            .columns = {{{"ids", bytes(ids)},
                         {"labels", bytes(labels)},
                         {"positions", bytes(positions)},
                         {"seq_offsets", bytes(seq_offsets)}}}};
  }
};

// All micro-batches of "train", one after another.
inline std::vector<FlatBatch> all_micro_batches() {
  std::vector<FlatBatch> result;
  for (const nlohmann::json& step : tiny_batches()["train"]) {
    for (const nlohmann::json& micro_batch : step) result.emplace_back(micro_batch);
  }
  return result;
}

struct TinySetup {
  std::string adapter;                  // a folder below the model's; empty: full fine-tuning
  std::optional<LoraStart> start = {};  // a fresh adapter with the options of that folder's
  std::optional<ActivationPolicy> activations = ActivationPolicy::kKeep;
  DType dtype = DType::kF32;
  double dropout = 0;                  // of the adapter
  double noise = 0;                    // on embeddings: neftune_noise_alpha
  double router_aux_loss_coef = 0;     // of a mixture
  train::ObjectivePtr objective = {};  // of tokens that have weights; null: plain text
  std::string config_overrides = {};   // keys that replace those of config.json
  bool accumulates = true;
  int64_t micro_batches = 1;  // that the graph computes together, layer by layer
  int64_t mlp_tiles = 1;      // as ModelOptions::mlp_tiles
  int threads = 2;
  std::optional<int64_t> device_budget;
  Device* device = nullptr;     // null: the CPU
  LinearStorage in_files = {};  // how the model's files have the linear layers, where config.json does not say it
  std::optional<LinearStorage> linear_storage = {};
  const ops::OptimizerDef* optimizer = &ops::kAdamw;
  bool masters = true;  // of bf16 weights
  std::optional<int64_t> rounding_seed = {};
};

inline Device& device_of(const TinySetup& setup) { return setup.device ? *setup.device : cpu_device(); }

inline train::Job tiny_job(const std::filesystem::path& model, const TinySetup& setup) {
  train::Job job;
  job.config.model.base_model = model.string();
  DecoderConfig config = read_decoder_config(model, setup.config_overrides);
  if (setup.in_files.storage->is_coded()) config.linear_storage = setup.in_files;
  job.model = make_decoder(std::move(config));
  ModelOptions& options = job.graph.model;
  options.dtype = setup.dtype;
  options.tokens = 48;
  options.max_sequences = 5;
  options.mlp_tiles = setup.mlp_tiles;
  options.linear_storage = setup.linear_storage;
  options.neftune_noise_alpha = setup.noise;
  options.router_aux_loss_coef = setup.router_aux_loss_coef;
  options.train_base = setup.adapter.empty();
  if (!setup.adapter.empty()) {
    job.config.adapter.emplace().model_dir = (model / setup.adapter).string();
    options.lora = read_adapter_options(model / setup.adapter);
    options.lora->dropout = setup.dropout;
    job.model = fit_to_adapter(job.model, *options.lora, model / setup.adapter);
    if (setup.start) {
      options.lora->start = *setup.start;
      job.config.adapter->model_dir.clear();
    }
  }
  if (setup.objective) job.graph.objective = setup.objective;
  job.graph.optimizer = setup.optimizer;
  job.graph.optimizer_options =
      ops::options_of(*setup.optimizer, {{"weight_decay", 0.01}, {"momentum", 0.9}, {"min_8bit_size", 256}});
  job.graph.masters = setup.masters;
  job.graph.rounding_seed = setup.rounding_seed;
  job.graph.accumulates = setup.accumulates;
  job.graph.micro_batches = setup.micro_batches;
  if (setup.activations) job.policy = saved_policy(*setup.activations);
  job.budget.device = setup.device_budget;
  return job;
}

// Gives a job the plan of these choices.
inline void plan_again(train::PlannedJob& planned, const Choices& choices, const Machine& machine) {
  planned.plan = plan_for(planned.training.graph, machine, choices);
  for (train::JobProgram& program : planned.beside)
    program.plan = make_plan_beside(planned.training.graph, choices, program.graph, machine, {});
}

// A planned job with its weights loaded.
class TinyTraining {
 public:
  TinyTraining(const std::filesystem::path& model, const TinySetup& setup)
      : TinyTraining(tiny_job(model, setup), Machine{.device = device_of(setup).kind(), .threads = setup.threads},
                     [&](const train::PlannedJob& planned) {
                       REQUIRE(planned.plan.fits);
                       return ExecutorOptions{.tiers = {.device = setup.device}};
                     }) {}

  TinyTraining(train::Job job, int threads)
      : TinyTraining(std::move(job), Machine{.threads = threads}, [&](const train::PlannedJob& planned) {
          REQUIRE(planned.plan.fits);
          return ExecutorOptions{};
        }) {}

  // `prepare` may change the plan, and says how to execute it.
  template <typename Prepare>
  TinyTraining(train::Job job, const Machine& machine, const Prepare& prepare)
      : pool_(machine.threads), job_(std::move(job)) {
    planned_ = train::plan_job(job_, machine);
    session_ = std::make_unique<train::TrainingSession>(job_, planned_, pool_, prepare(planned_));
    const train::InitialState initial(job_);
    initial.load(job_, planned_.training, session_->store());
  }

  // Forward and backward of a whole step; accumulated gradients stay. Returns the mean loss. Micro-batches have batch()
  // and targets, as FlatBatch has them.
  template <typename MicroBatches>
  double accumulate(const MicroBatches& micro_batches, double learning_rate, int64_t step) {
    int64_t targets = 0, micro_step = 0;
    for (const auto& batch : micro_batches) targets += batch.targets;
    session_->begin_step(learning_rate, step, std::ssize(micro_batches));
    const float scale = 1.0f / static_cast<float>(targets);
    const size_t together = training().group.size(), count = std::size(micro_batches);
    double loss = 0;
    for (const auto& batch : micro_batches) {
      if (together > 1) break;
      loss += session_->micro_step(batch.batch(), scale, micro_step++);
    }
    for (size_t first = 0; together > 1 && first < count; first += together) {
      std::vector<infer::Batch> batches;
      for (size_t i = first; i < std::min(first + together, count); ++i) batches.push_back(micro_batches[i].batch());
      std::vector<train::BatchStreams> group;
      for (const infer::Batch& batch : batches) group.emplace_back(std::span(&batch, 1));
      for (const double share : session_->micro_steps(group, scale, static_cast<int64_t>(first))) loss += share;
    }
    return loss;
  }
  double update() { return session_->update(); }

  [[nodiscard]] const train::Job& job() const { return job_; }
  [[nodiscard]] const train::TrainingGraph& training() const { return planned_.training; }
  [[nodiscard]] const Plan& plan() const { return planned_.plan; }
  [[nodiscard]] train::TrainingSession& session() { return *session_; }
  [[nodiscard]] const std::vector<train::TrainedWeight>& trained() const { return planned_.training.trained; }
  [[nodiscard]] const std::string& name(ValueId id) const { return planned_.training.graph.value(id).name; }
  // Returns the content of a persistent value, in whatever tier it lives. REQUIRES: it is f32.
  [[nodiscard]] std::vector<double> numbers(ValueId id) const {
    std::vector<double> result;
    session_->store().read(id, [&](const TensorView& piece, int64_t) {
      result.insert(result.end(), piece.as<float>(), piece.as<float>() + piece.elems());
    });
    return result;
  }
  // The same for any type.
  [[nodiscard]] std::vector<std::byte> bytes(ValueId id) const {
    std::vector<std::byte> result;
    session_->store().read(id, [&](const TensorView& piece, int64_t) {
      result.insert(result.end(), piece.as<std::byte>(), piece.as<std::byte>() + piece.bytes());
    });
    return result;
  }

 private:
  ThreadPool pool_;
  train::Job job_;
  train::PlannedJob planned_;
  std::unique_ptr<train::TrainingSession> session_;
};

}  // namespace spillway::testing

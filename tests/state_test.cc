// The optimizer's state in slices, updates inside the backward pass, and files of the state: none of them changes a
// bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "graph/verify.h"
#include "job/initial_state.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "ops/optimizers/adamw_torchao/adamw_torchao.h"
#include "ops/optimizers/came/came.h"
#include "ops/optimizers/muon/muon.h"
#include "plan/usage.h"
#include "saved/saved_model.h"
#include "saved/state.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/piecewise_store.h"
#include "tests/support/tiny_outcome.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kStateSteps = 3;
constexpr int64_t kOneSlice = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallSlice = 320;  // elements: ten rows of most matrices of the tiny models

struct Variant {
  const ops::OptimizerDef* optimizer = &ops::kAdamw;
  double max_grad_norm = 1;
  int64_t slice_elems = kOneSlice;
};

train::Job job_of(const std::filesystem::path& model, const TinySetup& setup, const Variant& variant) {
  TinySetup with_optimizer = setup;
  with_optimizer.optimizer = variant.optimizer;
  train::Job job = tiny_job(model, with_optimizer);
  job.graph.max_grad_norm = variant.max_grad_norm;
  job.graph.state_slice_elems = variant.slice_elems;
  return job;
}

TinyOutcome train_state(train::Job job, int threads) {
  TinyTraining training(std::move(job), threads);
  return outcome_of(training, kStateSteps, 1);
}

// Full fine-tuning and LoRA, f32 and bf16, everything kept and everything recomputed: each pair of these once.
std::vector<TinySetup> state_setups(bool accumulates) {
  return {{.dtype = DType::kF32, .accumulates = accumulates},
          {.activations = ActivationPolicy::kRecompute, .dtype = DType::kBF16, .accumulates = accumulates},
          {.adapter = "adapter",
           .activations = ActivationPolicy::kRecompute,
           .dtype = DType::kF32,
           .accumulates = accumulates},
          {.adapter = "adapter", .dtype = DType::kBF16, .accumulates = accumulates}};
}

// The ids of operations of that name, in their order.
std::vector<OpId> operations(const Graph& graph, std::string_view name) {
  std::vector<OpId> result;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    if (graph.op(id).def->name == name) result.push_back(id);
  }
  return result;
}

std::map<std::string, std::vector<int64_t>> shapes_of(const std::filesystem::path& file) {
  std::map<std::string, std::vector<int64_t>> result;
  const SafetensorsFile opened(file);
  for (const StoredTensor& tensor : opened.tensors()) result[tensor.name] = tensor.shape;
  return result;
}

}  // namespace

TEST_CASE("slices of the optimizer's state change no bit") {
  const std::filesystem::path model = kGoldenModels / "qwen3_tied";
  for (const ops::OptimizerDef* optimizer : ops::all_optimizers()) {
    CAPTURE(optimizer->name);
    for (const bool accumulates : {false, true}) {
      for (const TinySetup& setup : state_setups(accumulates)) {
        CAPTURE(setup.adapter);
        CAPTURE(accumulates);
        const int64_t slice_elems = setup.adapter.empty() ? kSmallSlice : 40;
        const train::Job sliced = job_of(model, setup, {.optimizer = optimizer, .slice_elems = slice_elems});
        const train::TrainingGraph training = train::build_training_graph(*sliced.model, sliced.graph);
        CHECK(std::any_of(training.trained.begin(), training.trained.end(), [&](const train::TrainedWeight& t) {
          const bool is_coarse = t.schema.slice_unit > slice_elems && !setup.adapter.empty();
          return t.slices.size() >= 3 || t.schema.slice_unit == 0 || is_coarse;
        }));
        CHECK(train_state(sliced, setup.threads) == train_state(job_of(model, setup, {.optimizer = optimizer}), 2));
      }
    }
  }
}

TEST_CASE("slices cover every weight in order, have names of their own and a bounded size") {
  const train::Job job = job_of(kGoldenModels / "qwen3_tied", {.dtype = DType::kBF16}, {.slice_elems = kSmallSlice});
  const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  const Graph& graph = training.graph;
  CHECK(verify(graph).empty());
  for (const train::TrainedWeight& t : training.trained) {
    const Value& weight = graph.value(t.weight);
    CAPTURE(weight.name);
    int64_t row = 0;
    for (size_t i = 0; i < t.slices.size(); ++i) {
      const train::StateSlice& slice = t.slices[i];
      CHECK(slice.rows.first == row);
      row += slice.rows.count;
      const std::string end = t.slices.size() == 1 ? "" : fmt::format(".{}", i);
      CHECK(graph.value(slice.master).name == "master." + weight.name + end);
      CHECK(graph.value(slice.states[0]).name == "exp_avg." + weight.name + end);
      CHECK(graph.value(slice.states[1]).name == "exp_avg_sq." + weight.name + end);
      CHECK(graph.value(slice.states[1]).type.shape.elems() <= kSmallSlice);
      CHECK(graph.value(slice.states[1]).type.shape == ops::shape_of(slice.rows, weight.type.shape));
      CHECK(graph.value(slice.states[1]).block == weight.block);
    }
    CHECK(row == weight.type.shape[0]);
    CHECK((t.slices.size() == 1) == (weight.type.shape.elems() <= kSmallSlice));
  }
}

TEST_CASE("updates inside the backward pass change no bit") {
  // A limit that no norm reaches clips by a factor of one, after the backward pass.
  for (const std::string model : {"llama2", "llama_bias", "qwen3_tied"}) {
    for (const ops::OptimizerDef* optimizer : ops::all_optimizers()) {
      for (const TinySetup& setup : state_setups(false)) {
        CAPTURE(model);
        CAPTURE(setup.adapter);
        const auto path = kGoldenModels / model;
        const TinyOutcome late = train_state(job_of(path, setup, {.optimizer = optimizer, .max_grad_norm = 1e30}), 2);
        CHECK(train_state(job_of(path, setup, {.optimizer = optimizer, .max_grad_norm = 0}), 2) == late);
        CHECK(std::all_of(late.norms.begin(), late.norms.end(), [](double norm) { return norm > 0; }));
      }
    }
  }
}

TEST_CASE("norms and updates stand in the backward pass where nothing keeps them from it") {
  for (const bool accumulates : {false, true}) {
    for (const double max_grad_norm : {0.0, 1.0}) {
      CAPTURE(accumulates);
      CAPTURE(max_grad_norm);
      const train::Job job = job_of(kGoldenModels / "qwen3_tied", {.accumulates = accumulates},
                                    {.max_grad_norm = max_grad_norm, .slice_elems = kSmallSlice});
      const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
      const Graph& graph = training.graph;
      CHECK(verify(graph).empty());
      const std::vector<OpId> norms = operations(graph, "squared_norm"), updates = operations(graph, "adamw");
      CHECK(norms.size() == training.trained.size());
      for (const OpId id : norms) CHECK(graph.op(id).section == (accumulates ? training.update : training.backward));
      const SectionId section = accumulates || max_grad_norm > 0 ? training.update : training.backward;
      for (const OpId id : updates) CHECK(graph.op(id).section == section);

      // The norm of all adds up the same numbers in the same order everywhere: that of the weights.
      const Operation& clip = graph.op(operations(graph, "clip_factor").at(0));
      CHECK(clip.section == training.update);
      REQUIRE(clip.inputs.size() == training.trained.size());
      for (size_t i = 0; i < clip.inputs.size(); ++i) {
        const Operation& norm = graph.op(graph.value(clip.inputs[i]).producer);
        CHECK(graph.value(norm.inputs[0]).type.shape == graph.value(training.trained[i].weight).type.shape);
        if (accumulates) CHECK(graph.persistent_root(norm.inputs[0]) == training.trained[i].accumulator);
      }
    }
  }
}

TEST_CASE("where updates are inside the backward pass, few gradients are live at once") {
  const auto max_gradient_bytes = [](double max_grad_norm) {
    const train::Job job = job_of(kGoldenModels / "llama2", {.dtype = DType::kBF16, .accumulates = false},
                                  {.max_grad_norm = max_grad_norm});
    const train::PlannedJob planned = train::plan_job(job, {.threads = 1});
    int64_t most = 0;
    for (int32_t step = 0; step < static_cast<int32_t>(planned.plan.schedule.steps.size()); ++step) {
      const ClassBytes bytes = usage_at(planned.training.graph, planned.plan.schedule, Tier::kDevice, step);
      most = std::max(most, nth(bytes, MemoryClass::kGradient));
    }
    return most;
  };
  const train::Job job = tiny_job(kGoldenModels / "llama2", {.dtype = DType::kBF16});
  int64_t all = 0, largest = 0;
  for (const Parameter& p : parameters_of(*job.model)) {
    if (!p.is_of_model()) continue;
    all += p.shape.elems();
    largest = std::max(largest, p.shape.elems());
  }
  CHECK(max_gradient_bytes(1) >= 2 * all);
  // The bound: the gradient of the head or the embedding in f32, and a matrix with those that share its inputs.
  CHECK(max_gradient_bytes(0) <= 4 * largest + 2 * 4 * 48 * 32);
}

TEST_CASE("a checkpoint holds whole tensors, whatever the slices, and continues under others bit for bit") {
  struct Case {
    const char* adapter;
    DType dtype;
    const ops::OptimizerDef* optimizer;
  };
  std::vector<Case> cases;
  for (const char* adapter : {"", "adapter"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) cases.push_back({adapter, dtype, &ops::kAdamw});
  }
  for (const ops::OptimizerDef* optimizer : ops::all_optimizers()) cases.push_back({"", DType::kBF16, optimizer});
  for (const Case& c : cases) {
    const DType dtype = c.dtype;
    CAPTURE(c.adapter);
    CAPTURE(name_of(dtype));
    CAPTURE(c.optimizer->name);
    const TinySetup setup{.adapter = c.adapter, .dtype = dtype};
    const auto job = [&](int64_t slice_elems) {
      return job_of(kGoldenModels / "qwen3", setup, {.optimizer = c.optimizer, .slice_elems = slice_elems});
    };
    TinyOutcome want;
    const TemporaryFolder folder;
    const auto file = [&](const char* name) { return folder.path() / name; };
    {
      TinyTraining whole(job(kOneSlice), 2), sliced(job(kSmallSlice), 2);
      TinyOutcome same;
      train_steps(whole, 0, 2, 1, want);
      train_steps(sliced, 0, 2, 1, same);
      for (TinyTraining* training : {&whole, &sliced}) {
        train::save_optimizer_state(file(training == &whole ? "whole" : "sliced"), training->training(),
                                    training->session().store());
      }
      train_steps(whole, 2, kStateSteps, 1, want);
      collect_state(whole, want);
    }
    CHECK(read_file(file("whole"), 1 << 30) == read_file(file("sliced"), 1 << 30));
    // The names of all checkpoints so far.
    for (const auto& [name, shape] : shapes_of(file("whole"))) {
      const bool is_state = name.starts_with("exp_avg") || name.starts_with("master.");
      CHECK((is_state || dtype == DType::kF32 || c.optimizer != &ops::kAdamw));
      CHECK((name.ends_with(".weight") || name == fmt::format("optimizer.{}", c.optimizer->name)));
    }
    for (const int64_t slice_elems : {kOneSlice, kSmallSlice, int64_t{1000}}) {
      TinyTraining training(job(slice_elems), 2);
      train::load_optimizer_state(file("sliced"), training.training(), training.session().store());
      TinyOutcome got{.losses = {want.losses[0], want.losses[1]},
                      .norms = {want.norms[0], want.norms[1]},
                      .evaluations = {want.evaluations.begin(), want.evaluations.begin() + 4}};
      train_steps(training, 2, kStateSteps, 1, got);
      collect_state(training, got);
      CHECK(got == want);
    }
  }
}

TEST_CASE("state that passes through a small buffer is loaded and saved to the bit") {
  for (const std::string adapter : {"", "adapter", "fresh"}) {
    CAPTURE(adapter);
    train::Job job = job_of(kGoldenModels / "qwen3_tied",
                            {.adapter = adapter == "fresh" ? "adapter" : adapter, .dtype = DType::kBF16},
                            {.slice_elems = kSmallSlice});
    if (adapter == "fresh") job.config.adapter->model_dir.clear();
    TinyTraining direct(job, 1);
    const train::TrainingGraph& training = direct.training();
    PiecewiseStore store(training.graph, 37);
    train::InitialState(job).load(job, training, store);
    const auto check_equal = [&] {
      for (ValueId id = 0; id < static_cast<ValueId>(training.graph.values.size()); ++id) {
        CAPTURE(training.graph.value(id).name);
        if (training.graph.is_persistent(id)) CHECK(store.bytes(id) == direct.bytes(id));
      }
    };
    check_equal();

    TinyOutcome outcome;
    train_steps(direct, 0, 2, 1, outcome);
    const TemporaryFolder folder;
    const auto content = [&](const char* name) { return read_file(folder.path() / name, 1 << 30); };
    train::save_optimizer_state(folder.path() / "direct", training, direct.session().store());
    train::load_optimizer_state(folder.path() / "direct", training, store);
    train::InitialState initial(job);
    for (const train::TrainedWeight& t : training.trained) {  // cleared by the update
      store.bytes(t.accumulator).assign(store.bytes(t.accumulator).size(), std::byte{0});
    }
    check_equal();
    train::save_optimizer_state(folder.path() / "pieces", training, store);
    CHECK(content("direct") == content("pieces"));

    for (const bool through_pieces : {false, true}) {
      const std::filesystem::path model = folder.path() / (through_pieces ? "pieces_model" : "direct_model");
      std::filesystem::create_directory(model);
      train::save_model(model, {job, train::read_base_files(job), training,
                                through_pieces ? static_cast<ValueStore&>(store) : direct.session().store()});
    }
    const char* weights = adapter.empty() ? "model.safetensors" : "adapter_model.safetensors";
    CHECK(content((std::string("direct_model/") + weights).c_str()) ==
          content((std::string("pieces_model/") + weights).c_str()));
  }
}

TEST_CASE("weights that are trained are read once, whatever is made of them") {
  const auto bytes_read = [] {
    std::ifstream io("/proc/self/io");
    std::string name;
    int64_t bytes = 0;
    io >> name >> bytes;
    REQUIRE(name == "rchar:");
    return bytes;
  };
  const std::filesystem::path model = kGoldenModels / "qwen3";
  const train::Job job = job_of(model, {.dtype = DType::kBF16}, {.slice_elems = kSmallSlice});
  const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  REQUIRE(training.trained[0].slices[0].master != kNone);
  PiecewiseStore store(training.graph, 37);
  const train::InitialState initial(job);
  const int64_t before = bytes_read();
  initial.load(job, training, store);
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(model / "model.safetensors"));
  CHECK(bytes_read() - before > file_bytes / 2);
  CHECK(bytes_read() - before < file_bytes * 5 / 4);
}

TEST_CASE("a state of another job is refused by the whole tensor's name") {
  const TemporaryFolder folder;
  TinyTraining training(job_of(kGoldenModels / "qwen3", {}, {.slice_elems = kSmallSlice}), 1);
  const auto file = folder.path() / "state.safetensors";
  train::save_optimizer_state(file, training.training(), training.session().store());
  TinyTraining other(job_of(kGoldenModels / "qwen3", {.dtype = DType::kBF16}, {.slice_elems = kSmallSlice}), 1);
  try {
    train::load_optimizer_state(file, other.training(), other.session().store());
    FAIL("loaded");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("expected master.model.embed_tokens.weight as f32[96, 32], got nothing") !=
          std::string::npos);
  }
}

TEST_CASE("moments in codes and states of whole matrices leave for every tier and come back, and no bit changes") {
  for (const ops::OptimizerDef* optimizer : {&ops::kAdamw8bit, &ops::kAdamwTorchao4, &ops::kCame, &ops::kMuon}) {
    CAPTURE(optimizer->name);
    const ModeJobs jobs({.dtype = DType::kBF16, .threads = 1, .optimizer = optimizer});
    const TinyOutcome plain = jobs.outcome(kPlainJob);
    for (const char* home : {"host", "disk"}) {
      for (const char* plan : {"fixed", "auto"}) {
        CAPTURE(home);
        CAPTURE(plan);
        CHECK(jobs.outcome(fmt::format("optimizer_offload: {}\nmemory: {{plan: {}}}\n", home, plan)) == plain);
      }
    }
    if (optimizer == &ops::kAdamw8bit) check_budgets(jobs);
  }
}

TEST_CASE("weights without masters and their moments leave for every tier and come back, and no bit changes") {
  for (const ops::OptimizerDef* optimizer : {&ops::kAdamw, &ops::kAdamw8bit, &ops::kCame, &ops::kMuon}) {
    for (const std::optional<int64_t> seed : {std::optional<int64_t>(), std::optional<int64_t>(3)}) {
      CAPTURE(optimizer->name);
      CAPTURE(seed.has_value());
      const ModeJobs jobs(
          {.dtype = DType::kBF16, .threads = 1, .optimizer = optimizer, .masters = false, .rounding_seed = seed});
      const TinyOutcome plain = jobs.outcome(kPlainJob);
      for (const char* home : {"host", "disk"})
        CHECK(jobs.outcome(fmt::format("optimizer_offload: {}\nmemory: {{plan: auto}}\n", home)) == plain);
      if (optimizer != &ops::kAdamw || !seed) continue;
      check_modes(jobs);
      check_budgets(jobs);
    }
  }
}

TEST_CASE(
    "without masters a weight is 2 bytes with two moments of 2, and a run goes on from its state to the last bit") {
  const TinySetup setup{
      .dtype = DType::kBF16, .accumulates = false, .threads = 1, .masters = false, .rounding_seed = 3};
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  TinyOutcome whole, rest;
  TinyTraining first(kGoldenModels / "qwen3", setup);
  for (const train::TrainedWeight& t : first.trained()) {
    const ValueType& weight = first.training().graph.value(t.weight).type;
    CHECK(weight.dtype == DType::kBF16);
    for (const train::StateSlice& slice : t.slices) {
      CHECK(slice.master == kNone);
      for (const ValueId state : slice.states) CHECK(first.training().graph.value(state).type.dtype == DType::kBF16);
    }
  }
  train_steps(first, 0, 2, 1, whole);
  train::save_optimizer_state(file, first.training(), first.session().store());
  train_steps(first, 2, 4, 1, whole);
  collect_state(first, whole);
  TinyTraining second(kGoldenModels / "qwen3", setup);
  train::load_optimizer_state(file, second.training(), second.session().store());
  train_steps(second, 2, 4, 1, rest);
  collect_state(second, rest);
  CHECK(rest.state == whole.state);
  CHECK(rest.losses.back() == whole.losses.back());
}

TEST_CASE("what saved weights and their state take on a disk is known before") {
  for (const char* adapter : {"", "adapter"}) {
    CAPTURE(std::string(adapter));
    const train::Job job = job_of(kGoldenModels / "qwen3_tied", {.adapter = adapter, .dtype = DType::kBF16}, {});
    TinyTraining direct(job, 1);
    const train::BaseFiles base = train::read_base_files(job);
    const TemporaryFolder folder;
    const auto bytes_of = [&](const char* name) {
      const SafetensorsFile file(folder.path() / name);
      int64_t bytes = 0;
      for (const StoredTensor& tensor : file.tensors()) bytes += tensor.bytes;
      return bytes;
    };
    train::save_model(folder.path(), {job, base, direct.training(), direct.session().store()});
    CHECK(train::saved_bytes(job, base, direct.training()) ==
          bytes_of(*adapter == 0 ? "model.safetensors" : "adapter_model.safetensors"));
    train::save_optimizer_state(folder.path() / "state", direct.training(), direct.session().store());
    CHECK(train::state_bytes(direct.training()) == bytes_of("state"));
  }
}

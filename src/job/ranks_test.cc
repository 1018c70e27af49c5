// Trains a small model on one and on several ranks, as threads, and compares every bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "backend/testing/delayed_device.h"
#include "base/math.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "dist/testing/local_peers.h"
#include "graph/verify.h"
#include "infer/batch.h"
#include "job/state_tensors.h"
#include "job/training_graph.h"
#include "model/decoder/decoder.h"
#include "model/fresh_factors.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "ops/optimizers/lion/lion.h"
#include "ops/optimizers/muon/muon.h"
#include "plan/planner.h"
#include "plan/verify.h"
#include "runtime/executor.h"
#include "runtime/part_store.h"

using namespace spillway;

namespace {

constexpr int64_t kTokens = 24, kMicroBatches = 5, kSteps = 2;
constexpr int32_t kWords = 300;

struct Setup {
  bool tied = true, lora = false;
  DType dtype = DType::kF32;
  bool splits_states = false, splits_weights = false, masters = true;
  const ops::OptimizerDef* optimizer = &ops::kAdamw;
  int copies = 1;
  int64_t micro_batches = 1;
};

// Its matrices are cut into several blocks of parts; its norms lie on one rank.
train::TrainingGraph graph_for(const Setup& setup, int ranks) {
  train::TrainingGraphOptions options;
  options.model = {.dtype = setup.dtype, .tokens = kTokens, .max_sequences = 2, .sequence_len = 16};
  options.model.train_base = !setup.lora;
  if (setup.lora) options.model.lora = LoraOptions{.r = 4, .alpha = 8};
  options.accumulates = true;
  options.ranks = ranks;
  options.copies = ranks > 1 ? setup.copies : 1;
  options.micro_batches = setup.micro_batches;
  options.splits_states = setup.splits_states;
  options.splits_weights = setup.splits_weights;
  options.masters = setup.masters;
  options.optimizer = setup.optimizer;
  options.optimizer_options = ops::options_of(*setup.optimizer);
  if (setup.splits_states) options.state_slice_elems = 8192;  // the table has three slices
  const ModelPtr model =
      make_decoder(parse_decoder_config(fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160, "max_position_embeddings": 64,
    "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "tie_word_embeddings": {}, "vocab_size": {}}})",
                                                    setup.tied, kWords),
                                        "test"));
  return train::build_training_graph(*model, options);
}

struct Homes {
  const char* name;
  Tier gradients, state;
  bool blocks_alone = false;
};

Choices choices_for(const Graph& graph, const Homes& homes) {
  Choices choices = uniform_choices(graph, ActivationPolicy::kRecompute);
  GroupPattern gradients{.kind = ValueKind::kGradient}, state{.kind = ValueKind::kOptimizerState};
  if (homes.blocks_alone) gradients.in_block = state.in_block = true;
  move_groups(graph, gradients, homes.gradients, choices);
  move_groups(graph, state, homes.state, choices);
  return choices;
}

Machine machine_with_peers() {
  Machine machine{.threads = 1};
  machine.link_bytes_per_second.fill(1e9);
  return machine;
}

// Holds what must not depend on the number of ranks.
struct Outcome {
  std::map<std::string, std::vector<std::byte>> values;
  std::vector<float> norms;
  std::map<int64_t, float> losses;  // by the number of the micro-batch
  bool operator==(const Outcome&) const = default;
};

// One rank's memory and executor.
class RankRun {
 public:
  // Null: the device is the CPU.
  RankRun(const train::TrainingGraph& training, const Plan& plan, Peers* peers, Device* device = nullptr)
      : training_(training), peers_(peers), ranks_(peers ? peers->size() : 1), rank_(peers ? peers->rank() : 0) {
    TierOptions tiers{.device = device};
    if (const int64_t bytes = nth(plan.program.arena_bytes, Tier::kDisk); bytes > 0) {
      scratch_.emplace(ScratchOptions{.folders = {folder_.path()}, .bytes = align_up(bytes, kDiskAlignment)});
      tiers.scratch = &*scratch_;
    }
    executor_.emplace(training.graph, plan.program, pool_, ExecutorOptions{.tiers = tiers, .peers = peers});
    if (peers) parts_.emplace(executor_->values(), training.graph, training.parts, *peers);
    load();
  }

  Outcome train() {
    Outcome outcome;
    for (int64_t step = 0; step < kSteps; ++step) {
      *executor_->home(training_.learning_rate).as<float>() = 1e-2f;
      *executor_->home(training_.step).as<int32_t>() = static_cast<int32_t>(step + 1);
      for (int64_t first = 0; first < kMicroBatches; first += ranks_) sub_step(step, first, outcome);
      executor_->run(training_.update);
      outcome.norms.push_back(*executor_->result(training_.norm_result).as<float>());
    }
    const auto into = [&](const std::string& name) {
      return [&bytes = outcome.values[name]](const TensorView& piece, int64_t) {
        bytes.insert(bytes.end(), piece.as<std::byte>(), piece.as<std::byte>() + piece.bytes());
      };
    };
    for (const train::StateTensor& tensor : state_tensors(training_)) read_tensor(store(), tensor, into(tensor.name));
    for (const train::TrainedWeight& t : training_.trained)
      store().read(t.weight, into("copy of " + training_.graph.value(t.weight).name));
    return outcome;
  }
  [[nodiscard]] const LaneProfile& lanes() const { return executor_->lanes(); }

 private:
  [[nodiscard]] ValueStore& store() { return parts_ ? static_cast<ValueStore&>(*parts_) : executor_->values(); }

  // Fills weights with small numbers, norms with ones, and sums and states with nothing.
  void load() {
    const Graph& graph = training_.graph;
    const auto fill = [&](const std::string& weight, const TensorView& piece, int64_t first) {
      const bool is_norm = weight.find("norm") != std::string::npos;
      for (int64_t i = 0; i < piece.elems(); ++i) {
        const uint64_t mixed = (random_stream_of(weight) + static_cast<uint64_t>(first + i)) * 0x9E3779B97F4A7C15u;
        const float number = is_norm ? 1 : static_cast<float>(mixed >> 56) / 1024 - 0.125f;
        if (piece.dtype == DType::kF32) {
          piece.as<float>()[i] = number;
        } else {
          piece.as<bf16>()[i] = to_bf16(number);
        }
      }
    };
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
      if (!graph.is_persistent(id)) continue;
      store().write(id, [&](const TensorView& piece, int64_t first) {
        std::fill_n(piece.as<std::byte>(), piece.bytes(), std::byte{0});
        if (graph.value(id).kind == ValueKind::kFrozenWeight) fill(graph.value(id).name, piece, first);
      });
    }
    for (const train::TrainedWeight& t : training_.trained)
      write_exact(store(), training_, t, "test",
                  [&](const TensorView& piece, int64_t first) { fill(graph.value(t.weight).name, piece, first); });
  }

  // A rank without a micro-batch works on no tokens, or on some that must not count.
  void sub_step(int64_t step, int64_t first, Outcome& outcome) {
    const int64_t own = first + rank_;
    const auto contributors = static_cast<int>(std::min<int64_t>(ranks_, kMicroBatches - first));
    const bool counts = rank_ < contributors;
    const int64_t tokens = !counts && rank_ % 2 == 1 ? 0 : kTokens;
    fill(step * kMicroBatches + (counts ? own : 0), tokens);
    executor_->set_rows(kTokenAxis, tokens);
    executor_->run(training_.forward);
    const float loss = *executor_->result(training_.objective.loss_result).as<float>();
    if (counts) outcome.losses[step * kMicroBatches + own] = loss;
    if (peers_) executor_->set_contributors(contributors);
    executor_->run(training_.backward);
  }

  void fill(int64_t number, int64_t tokens) {
    RandomStream random(static_cast<uint64_t>(number), 2);
    std::vector<int32_t> ids, labels, positions;
    const std::vector<int32_t> seq_offsets = {0, static_cast<int32_t>(std::min<int64_t>(10, tokens)),
                                              static_cast<int32_t>(tokens)};
    for (int32_t i = 0; i < kTokens; ++i) {
      ids.push_back(static_cast<int32_t>(random.below(kWords / 20)));  // with repetitions
      labels.push_back(static_cast<int32_t>(random.below(kWords)));
      positions.push_back(i < 10 ? i : i - 10);
    }
    const std::map<std::string_view, const std::vector<int32_t>*> columns = {
        {"ids", &ids}, {"labels", &labels}, {"positions", &positions}, {"seq_offsets", &seq_offsets}};
    for (const auto& [column, stream, value] : training_.objective.columns) {
      infer::copy_column(training_.graph.value(value), std::as_bytes(std::span(*columns.at(column.name))),
                         executor_->home(value));
    }
    *executor_->home(training_.objective.scale).as<float>() = 1.0f / (kTokens * kMicroBatches);
  }

  const train::TrainingGraph& training_;
  Peers* peers_;
  int64_t ranks_, rank_;
  TemporaryFolder folder_;
  ThreadPool pool_{1};
  std::optional<Scratch> scratch_;
  std::optional<Executor> executor_;
  std::optional<PartStore> parts_;  // of several ranks
};

Plan plan_of(const train::TrainingGraph& training, const Homes& homes) {
  for (const std::string& violation : verify(training.graph)) FAIL_CHECK(violation);
  const Plan plan = plan_for(training.graph, machine_with_peers(), choices_for(training.graph, homes));
  for (const std::string& violation : verify(training.graph, plan.program)) FAIL_CHECK(violation);
  return plan;
}

void check_ranks(const Setup& setup, const Homes& homes, std::initializer_list<int> numbers_of_ranks,
                 bool have_devices = false) {
  const train::TrainingGraph alone = graph_for(setup, 1);
  const Outcome expected = RankRun(alone, plan_of(alone, {"device", Tier::kDevice, Tier::kDevice}), nullptr).train();
  for (const int ranks : numbers_of_ranks) {
    CAPTURE(homes.name);
    CAPTURE(ranks);
    const train::TrainingGraph training = graph_for(setup, ranks);
    const Plan plan = plan_of(training, homes);
    std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
    std::vector<int64_t> sent(static_cast<size_t>(ranks));
    const std::vector<std::string> errors = run_ranks(ranks, [&](Peers& peers) {
      spillway::testing::DelayedDevice device(static_cast<uint64_t>(peers.rank()), 10);
      RankRun run(training, plan, &peers, have_devices ? &device : nullptr);
      nth(outcomes, peers.rank()) = run.train();
      nth(sent, peers.rank()) = run.lanes().totals(Lane::kPeer).bytes;
    });
    CHECK(errors == std::vector<std::string>(static_cast<size_t>(ranks)));
    std::map<int64_t, float> losses;
    for (Outcome& outcome : outcomes) {
      losses.merge(outcome.losses);
      const bool same_bits = outcome.values == expected.values && outcome.norms == expected.norms;
      CHECK(same_bits);
    }
    CHECK(losses == expected.losses);
    const int64_t sub_steps = div_ceil(kMicroBatches, int64_t{ranks});
    int64_t planned = 0;
    for (const Instruction& i : plan.program.instructions) {
      if (i.lane != Lane::kPeer) continue;
      const bool is_update = training.graph.section_of(i.op).repeats == Repeats::kStep;
      planned += (is_update ? 1 : sub_steps) * kSteps * static_cast<int64_t>(cost_of(training.graph, i.op).sent_bytes);
    }
    CHECK(planned > 0);
    for (const int64_t bytes : sent) CHECK(bytes == planned);
  }
}

}  // namespace

TEST_CASE("weights, states, norms and losses have the same bits on one, two, three and four ranks") {
  const Homes at_home{"device", Tier::kDevice, Tier::kDevice};
  check_ranks({.tied = true}, at_home, {2, 3, 4});
  check_ranks({.tied = false}, at_home, {2});
  check_ranks({.lora = true}, at_home, {3});
  check_ranks({.dtype = DType::kBF16}, at_home, {2});
}

TEST_CASE("ranks that each update a part of the weights have the bits of one, in the states too") {
  const Homes at_home{"device", Tier::kDevice, Tier::kDevice};
  check_ranks({.tied = true, .splits_states = true}, at_home, {2, 3, 4});
  check_ranks({.lora = true, .splits_states = true}, at_home, {2});
  check_ranks({.dtype = DType::kBF16, .splits_states = true}, at_home, {2, 3});
  check_ranks({.dtype = DType::kBF16, .splits_states = true, .masters = false}, at_home, {2});
  for (const ops::OptimizerDef* optimizer : {&ops::kAdamw8bit, &ops::kLion, &ops::kMuon})
    check_ranks({.dtype = DType::kBF16, .splits_states = true, .optimizer = optimizer}, at_home, {2});
  for (const Homes& homes : {Homes{"disk", Tier::kDisk, Tier::kDisk}, Homes{"host", Tier::kHost, Tier::kHost},
                             Homes{"blocks on the host", Tier::kHost, Tier::kHost, true}})
    check_ranks({.dtype = DType::kBF16, .splits_states = true}, homes, {2});
}

TEST_CASE("ranks that gather weights as they need them have the bits of one") {
  const Homes at_home{"device", Tier::kDevice, Tier::kDevice};
  const auto split = [](Setup setup) {
    setup.splits_states = setup.splits_weights = true;
    return setup;
  };
  check_ranks(split({.tied = true}), at_home, {2, 3, 4});
  check_ranks(split({.tied = false}), at_home, {2});
  check_ranks(split({.lora = true}), at_home, {2});
  check_ranks(split({.dtype = DType::kBF16}), at_home, {2, 3});
  check_ranks(split({.dtype = DType::kBF16, .masters = false}), at_home, {2});
  check_ranks(split({.dtype = DType::kBF16, .optimizer = &ops::kMuon}), at_home, {2});
  for (const Homes& homes : {Homes{"disk", Tier::kDisk, Tier::kDisk}, Homes{"host", Tier::kHost, Tier::kHost}})
    check_ranks(split({.dtype = DType::kBF16}), homes, {2});
}

TEST_CASE("ranks whose devices have memory of their own, and work on their own time, have the bits of one") {
  for (const bool splits_weights : {false, true}) {
    const Setup setup{.dtype = DType::kBF16, .splits_states = true, .splits_weights = splits_weights};
    for (const Homes& homes : {Homes{"device", Tier::kDevice, Tier::kDevice}, Homes{"host", Tier::kHost, Tier::kHost}})
      check_ranks(setup, homes, {2}, true);
  }
}

TEST_CASE("groups of ranks that each have all parts have the bits of one rank") {
  const Homes at_home{"device", Tier::kDevice, Tier::kDevice};
  const Setup states{.dtype = DType::kBF16, .splits_states = true, .copies = 2};
  check_ranks(states, at_home, {4, 6});
  Setup weights = states;
  weights.splits_weights = true;
  check_ranks(weights, {"host", Tier::kHost, Tier::kHost}, {4});
  weights.lora = true;
  check_ranks(weights, at_home, {4});
  const auto bytes_of = [&](int ranks, int copies) {
    Setup setup = weights;
    setup.copies = copies;
    const Graph graph = graph_for(setup, ranks).graph;
    int64_t bytes = 0;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
      if (graph.is_persistent(id)) bytes += graph.value(id).type.bytes();
    return bytes;
  };
  CHECK(bytes_of(4, 2) == bytes_of(2, 1));
}

TEST_CASE(
    "layer by layer, a group of micro-batches gathers each weight once, and adds up each micro-batch's gradient") {
  const auto count_of = [](std::string_view name, int64_t micro_batches) {
    const Setup setup{.splits_states = true, .splits_weights = true, .micro_batches = micro_batches};
    const Graph graph = graph_for(setup, 2).graph;
    return std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Operation& op) {
      return op.def->name == name && graph.section_of(op).repeats == Repeats::kMicroBatch;
    });
  };
  CHECK(count_of("all_gather", 1) > 0);
  CHECK(count_of("all_gather", 4) == count_of("all_gather", 1));
  CHECK(count_of("reduce_scatter", 4) == 4 * count_of("reduce_scatter", 1));
}

TEST_CASE("a rank has a part of what an optimizer keeps, where the optimizer can work on parts") {
  const auto bytes_of = [](const ops::OptimizerDef& optimizer, int ranks) {
    const Setup setup{.dtype = DType::kBF16, .splits_states = true, .optimizer = &optimizer};
    std::map<ValueKind, int64_t> bytes;
    const Graph graph = graph_for(setup, ranks).graph;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
      if (graph.is_persistent(id)) bytes[graph.value(id).kind] += graph.value(id).type.bytes();
    return bytes;
  };
  auto alone = bytes_of(ops::kAdamw, 1), of_four = bytes_of(ops::kAdamw, 4);
  CHECK(of_four[ValueKind::kTrainableWeight] == alone[ValueKind::kTrainableWeight]);
  // Matrices of 4,096 elements and norms stay whole, and larger ones have parts of 4,096 or 8,192.
  CHECK(static_cast<double>(of_four[ValueKind::kOptimizerState]) <
        0.8 * static_cast<double>(alone[ValueKind::kOptimizerState]));
  CHECK(bytes_of(ops::kMuon, 4)[ValueKind::kOptimizerState] > of_four[ValueKind::kOptimizerState] / 2);
}

TEST_CASE("ranks add up gradients wherever a plan keeps them") {
  for (const Homes& homes : {Homes{"host", Tier::kHost, Tier::kDevice}, Homes{"disk", Tier::kDisk, Tier::kDevice},
                             Homes{"all on the host", Tier::kHost, Tier::kHost},
                             Homes{"blocks on the host", Tier::kHost, Tier::kHost, true}})
    check_ranks({}, homes, {2, 3});
}

TEST_CASE("a plan sees what collectives cost, and gradients die when they should have been sent") {
  const train::TrainingGraph training = graph_for({}, 2);
  const auto plan_at = [&](double rate, Overlap overlap) {
    Machine machine = machine_with_peers();
    nth(machine.link_bytes_per_second, Lane::kPeer) = rate;
    Choices choices = uniform_choices(training.graph, ActivationPolicy::kKeep);
    choices.overlap = overlap;
    return plan_for(training.graph, machine, choices);
  };
  const Plan fast = plan_at(1e12, Overlap::kWide), slow = plan_at(1e6, Overlap::kWide);
  const auto peer = [](const Plan& plan) { return nth(plan.simulation.lanes, Lane::kPeer); };
  double sent = 0;
  for (OpId id = 0; id < static_cast<OpId>(training.graph.ops.size()); ++id)
    sent += cost_of(training.graph, id).sent_bytes;
  CHECK(peer(fast).bytes == sent);
  CHECK(peer(slow).busy_seconds > sent / 1e6);
  CHECK(slow.simulation.bottleneck == Lane::kPeer);
  CHECK(slow.simulation.step_seconds(1) > fast.simulation.step_seconds(1) + sent / 2e6);
  // Behind a slow link more gradients are under way at once, unless nothing may be.
  CHECK(plan_at(1e6, Overlap::kSynchronous).peaks[0].lower_bound <= slow.peaks[0].lower_bound);
  CHECK(verify(training.graph, slow.program).empty());
}

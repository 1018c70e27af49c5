#include "job/training_graph.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/verify.h"
#include "job/weight_update.h"
#include "model/decoder/decoder.h"
#include "objectives/online/online.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "ops/optimizers/adamw_torchao/adamw_torchao.h"
#include "ops/optimizers/ademamix/ademamix.h"
#include "ops/optimizers/lion_8bit/lion_8bit.h"
#include "plan/planner.h"
#include "plan/shown_homes.h"
#include "plan/verify.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kVocabulary = 4096, kHidden = 64, kTableBytes = kVocabulary * kHidden * 2;

// Embedding and head are most of it.
ModelPtr small_decoder() {
  return make_decoder(parse_decoder_config(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 64,
    "num_attention_heads": 2, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 4096})",
                                           "test"));
}

Graph graph_of(bool lora, const ops::OptimizerDef& optimizer = ops::kAdamw) {
  train::TrainingGraphOptions options;
  options.optimizer = &optimizer;
  options.optimizer_options = ops::options_of(optimizer);
  options.model = {.dtype = DType::kBF16, .tokens = 64, .max_sequences = 2, .sequence_len = 32};
  options.model.train_base = !lora;
  if (lora) options.model.lora = LoraOptions{.r = 4, .alpha = 8};
  return train::build_training_graph(*small_decoder(), options).graph;
}

// PPO's: a policy with an adapter, and a value model half as deep that is trained in full.
train::TrainingGraph two_models() {
  const auto model_of = [](int layers) {
    return make_decoder(
        parse_decoder_config(fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 64,
    "num_attention_heads": 2, "num_hidden_layers": {}, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 4096}})",
                                         layers),
                             "test"));
  };
  const ModelPtr policy = model_of(4);
  train::TrainingGraphOptions options;
  options.model = {.dtype = DType::kBF16, .tokens = 64, .max_sequences = 2, .max_rows = 2, .sequence_len = 32};
  train::ValueModel value{.model = model_of(2)->text()->with_score(ScoreHead{}, std::nullopt),
                          .options = options.model};
  value.options.prefix = "value.";
  value.options.train_base = true;
  options.model.lora = LoraOptions{.r = 4, .alpha = 8};
  options.reference.model = options.model;
  options.reference.model->lora.reset();
  options.value = std::move(value);
  config::OnlineSettings settings{.kind = config::OnlineKind::kPpo, .name = "ppo", .num_generations = 1};
  options.objective = train::online_objective(settings, 1);
  options.max_grad_norm = 0;
  return train::build_training_graph(*policy, options);
}

}  // namespace

TEST_CASE("norms decay where the config says that all weights do, and nowhere else") {
  for (const bool decays_all : {false, true}) {
    train::TrainingGraphOptions options;
    options.model = {.dtype = DType::kF32, .tokens = 8, .max_sequences = 2, .sequence_len = 4};
    options.model.train_base = true;
    options.optimizer_options.set(ops::kWeightDecay.name, 0.1);
    options.decays_all = decays_all;
    const train::TrainingGraph training = train::build_training_graph(*small_decoder(), options);
    int norms = 0;
    for (const train::TrainedWeight& t : training.trained) {
      const bool is_norm = training.parameter_of(t).role == ParameterRole::kNorm;
      norms += is_norm ? 1 : 0;
      CHECK(train::optimizer_options_of(training, options, t).real(ops::kWeightDecay.name) ==
            (is_norm && !decays_all ? 0 : 0.1));
    }
    CHECK(norms == 7);
  }
}

TEST_CASE("a graph of two models has the blocks and weights of both, each trained as its own options say") {
  const train::TrainingGraph training = two_models();
  CHECK(verify(training.graph).empty());
  std::vector<std::string> blocks;
  for (const Block& block : training.graph.blocks) blocks.push_back(block.name);
  CHECK(blocks ==
        std::vector<std::string>{"layer 0", "layer 1", "layer 2", "layer 3", "value.layer 0", "value.layer 1"});
  REQUIRE(training.value);
  // Names of parameters are those of files, names of values are of the graph.
  const Parameter* const of_policy = training.model.parameters.find("model.layers.0.mlp.up_proj.weight");
  const Parameter* const of_value = training.value->parameters.find("model.layers.0.mlp.up_proj.weight");
  REQUIRE(of_policy);
  REQUIRE(of_value);
  CHECK(of_policy->values != of_value->values);
  CHECK(training.graph.value(of_value->values[0]).name == "value.model.layers.0.mlp.up_proj.weight");
  CHECK(training.graph.value(of_policy->values[0]).kind == ValueKind::kFrozenWeight);
  CHECK(training.graph.value(of_value->values[0]).kind == ValueKind::kTrainableWeight);
  // All that is written for inference is of the policy, and stands first.
  const size_t of_model = training.trained_of_model().size();
  CHECK(of_model == 2 * 7 * 4);
  for (size_t i = 0; i < training.trained.size(); ++i) CHECK(training.trained[i].is_value == (i >= of_model));
  CHECK(training.trained.size() - of_model == 2 * 9 + 3);  // with embedding, final norm and score
}

TEST_CASE("with bitsandbytes' optimizers the moments of the embedding are f32, as transformers has them") {
  const auto dtype_of = [](const Graph& graph, std::string_view name) {
    const auto found =
        std::find_if(graph.values.begin(), graph.values.end(), [&](const Value& value) { return value.name == name; });
    REQUIRE(found != graph.values.end());
    return found->type.dtype;
  };
  for (const auto& [optimizer, embedding] :
       {std::pair(&ops::kAdamw8bit, DType::kF32), std::pair(&ops::kLion8bit, DType::kF32),
        std::pair(&ops::kAdemamix8bit, DType::kF32), std::pair(&ops::kAdamwTorchao8, DType::kU8)}) {
    CAPTURE(optimizer->name);
    const Graph graph = graph_of(false, *optimizer);
    CHECK(verify(graph).empty());
    const std::string moment = optimizer == &ops::kAdemamix8bit ? "exp_avg_slow" : "exp_avg";
    CHECK(dtype_of(graph, moment + ".model.embed_tokens.weight") == embedding);
    CHECK(dtype_of(graph, moment + ".lm_head.weight") == DType::kU8);
    CHECK(dtype_of(graph, moment + ".model.layers.0.mlp.up_proj.weight") == DType::kU8);
  }
}

TEST_CASE("one plan has the blocks of two models, and a smaller budget treats those of both") {
  const train::TrainingGraph training = two_models();
  const Graph& graph = training.graph;
  const Machine machine = tiered_machine();
  const Plan whole = make_plan(graph, machine, {}, {});
  REQUIRE(whole.choices.saved.size() == 6);
  const auto plan_within = [&](int64_t device) {
    return make_plan(graph, machine, {.device = device, .host = 1 << 30, .disk = 1 << 30}, {});
  };
  const int64_t least = plan_within(0).peaks[0].bytes;
  CHECK(least < whole.peaks[0].bytes);
  const auto is_elsewhere = [](const BlockHomes& block) { return block.weights() != Tier::kDevice; };
  for (const int64_t budget : {whole.peaks[0].bytes, (whole.peaks[0].bytes + least) / 2, least}) {
    CAPTURE(budget);
    const Plan plan = plan_within(budget);
    CHECK(plan.fits);
    CHECK(plan.peaks[0].bytes <= budget);
    CHECK(verify(graph, plan.program, {.device = budget, .host = 1 << 30, .disk = 1 << 30}).empty());
    const std::vector<BlockHomes> blocks = shown_homes(graph, plan.choices).blocks;
    const bool of_policy = std::any_of(blocks.begin(), blocks.begin() + 4, is_elsewhere),
               of_value = std::any_of(blocks.begin() + 4, blocks.end(), is_elsewhere);
    if (budget == whole.peaks[0].bytes) CHECK_FALSE((of_policy || of_value));
    if (budget == least) CHECK((of_policy && of_value));
  }
}

TEST_CASE("a group that is a whole step keeps no sums of gradients; without clipping each is gone with its update") {
  const ModelPtr model =
      make_decoder(parse_decoder_config(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 256, "max_position_embeddings": 64,
    "num_attention_heads": 2, "num_hidden_layers": 6, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "tie_word_embeddings": true, "vocab_size": 64})",
                                        "test"));
  const auto graph_of_group = [&](bool is_whole_step, double max_grad_norm) {
    train::TrainingGraphOptions options;
    options.model = {.dtype = DType::kF32, .tokens = 16, .max_sequences = 2, .sequence_len = 16, .train_base = true};
    options.accumulates = true;
    options.micro_batches = 3;
    options.is_whole_step = is_whole_step;
    options.max_grad_norm = max_grad_norm;
    return train::build_training_graph(*model, options);
  };
  const auto peak = [](const train::TrainingGraph& training) {
    CHECK(verify(training.graph).empty());
    const Choices choices = uniform_choices(training.graph, ActivationPolicy::kRecompute);
    const Plan plan = plan_for(training.graph, Machine{.threads = 1}, choices);
    CHECK(verify(training.graph, plan.program, {}).empty());
    return plan.peaks[0].bytes;
  };
  const train::TrainingGraph kept = graph_of_group(false, 1);
  int64_t sums = 0;
  for (const train::TrainedWeight& t : kept.trained) sums += kept.graph.value(t.accumulator).type.bytes();
  for (const double max_grad_norm : {0.0, 1.0}) {
    CAPTURE(max_grad_norm);
    const train::TrainingGraph whole = graph_of_group(true, max_grad_norm);
    CHECK(whole.updates_early == (max_grad_norm == 0));
    for (const train::TrainedWeight& t : whole.trained) CHECK(t.accumulator == kNone);
    // With clipping, all gradients wait for the norm behind the last block's activations.
    const int64_t saved = peak(graph_of_group(false, max_grad_norm)) - peak(whole);
    CHECK(saved > (max_grad_norm == 0 ? sums / 2 : 0));
  }
}

TEST_CASE("the embedding leaves a device that is too small even without the layers, and none that has room for all") {
  const Graph graph = graph_of(/*lora=*/true);
  const Machine machine = tiered_machine();
  const auto plan_within = [&](int64_t device, std::optional<Tier> outer) {
    Policy policy;
    for (const GroupPattern& pattern : kWeightsOutside)
      if (outer) policy.rules.push_back({pattern, *outer});
    return make_plan(graph, machine, {.device = device, .host = 1 << 30}, policy);
  };
  const int64_t least = plan_within(0, Tier::kDevice).peaks[0].bytes;
  CHECK(shown_homes(graph, plan_within(1 << 30, {}).choices).tables == Tier::kDevice);
  CHECK(shown_homes(graph, plan_within(least, {}).choices).outer_weights == Tier::kDevice);
  const Plan smaller = plan_within(least - kTableBytes * 9 / 10, {});
  CHECK(smaller.fits);
  const ShownHomes homes = shown_homes(graph, smaller.choices);
  CHECK(homes.tables == Tier::kHost);
  CHECK(homes.outer_weights == Tier::kDevice);
}

TEST_CASE("weights outside layers are trained from where the config says") {
  const Graph graph = graph_of(/*lora=*/false);
  Policy policy = saved_policy(ActivationPolicy::kKeep);
  const auto on_disk = [&](Tier outer) {
    policy.rules = {{.pattern = {}, .home = Tier::kDisk}};
    for (const GroupPattern& pattern : kWeightsOutside) policy.rules.push_back({pattern, outer});
    const Plan plan = make_plan(graph, tiered_machine(), {.disk = 1 << 30}, policy);
    CHECK(plan.fits);
    return plan.peaks[2].bytes;
  };
  CHECK(on_disk(Tier::kDisk) >= on_disk(Tier::kDevice) + 2 * kTableBytes);
}

TEST_CASE("the state of some layers stays on the device where that of others leaves, and no layer more would help") {
  const Graph graph = graph_of(/*lora=*/false);
  const Machine machine = tiered_machine();
  const auto plan_within = [&](std::optional<int64_t> device, std::optional<Tier> state) {
    Policy policy = saved_policy(ActivationPolicy::kKeep);
    for (const ValueKind kind : {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight, ValueKind::kGradient})
      policy.rules.push_back({{.kind = kind}, Tier::kDevice});
    if (state) policy.rules.push_back({{.kind = ValueKind::kOptimizerState}, *state});
    return make_plan(graph, machine, {.device = device, .host = 1 << 30, .disk = 1 << 30}, policy);
  };
  for (const Tier away : {Tier::kHost, Tier::kDisk}) {
    CAPTURE(name_of(away));
    const Plan least = plan_within({}, away);
    int64_t layer = 0;  // f32 master and both moments
    for (const Value& value : graph.values) {
      if (value.kind == ValueKind::kTrainableWeight && value.block == 0 && value.producer == kNone)
        layer += value.type.shape.elems() * 12;
    }
    const int64_t budget = least.peaks[0].bytes + layer * 3 / 2;
    const Plan plan = plan_within(budget, {});
    CHECK(plan.fits);
    CHECK(shown_homes(graph, plan.choices).state.home != Tier::kDevice);
    const std::vector<BlockHomes> blocks = shown_homes(graph, plan.choices).blocks;
    const auto resident = std::count_if(blocks.begin(), blocks.end(),
                                        [](const BlockHomes& block) { return block.state.home == Tier::kDevice; });
    CHECK(resident >= 1);
    REQUIRE(resident < std::ssize(blocks));
    Choices one_more = plan.choices;
    const auto next = static_cast<BlockId>(std::ssize(blocks) - 1 - resident);
    nth(one_more.groups, graph.find_group(ValueKind::kOptimizerState, next)) = {};
    const Plan larger = plan_for(graph, machine, one_more);
    CHECK((larger.peaks[0].bytes > budget || larger.simulation.step_seconds(1) >= plan.simulation.step_seconds(1)));
    CHECK(plan.simulation.step_seconds(1) < least.simulation.step_seconds(1));
  }
}

TEST_CASE("what host memory cannot hold of the layers' weights or state lies on the disk, and the rest does not") {
  Machine machine = tiered_machine();
  for (const Lane lane : {Lane::kDiskRead, Lane::kDiskWrite}) nth(machine.link_bytes_per_second, lane) = 2e7;
  for (const bool of_state : {false, true}) {
    CAPTURE(of_state);
    const Graph graph = graph_of(/*lora=*/!of_state);
    const ValueKind kind = of_state ? ValueKind::kOptimizerState : ValueKind::kFrozenWeight;
    const auto plan_within = [&](const Budget& budget, std::optional<Tier> home) {
      Policy policy = saved_policy(ActivationPolicy::kKeep);
      for (const ValueKind other : {ValueKind::kTrainableWeight, ValueKind::kGradient,
                                    of_state ? ValueKind::kFrozenWeight : ValueKind::kOptimizerState})
        policy.rules.push_back({{.kind = other}, Tier::kDevice});
      if (home) policy.rules.push_back({{.kind = kind}, *home});
      for (const GroupPattern& pattern : kWeightsOutside) policy.rules.push_back({pattern, Tier::kDevice});
      return make_plan(graph, machine, budget, policy);
    };
    const Plan on_host = plan_within({.host = 1 << 30}, Tier::kHost);
    int64_t layer = 0;
    for (const Value& value : graph.values)
      if (value.kind == kind && value.block == 0 && value.producer == kNone) layer += value.type.bytes();
    const Budget budget{
        .device = on_host.peaks[0].bytes + layer / 2, .host = on_host.peaks[1].bytes - layer * 3 / 2, .disk = 1 << 30};
    const Plan plan = plan_within(budget, {});
    CHECK(plan.fits);
    CHECK(verify(graph, plan.program, budget).empty());
    std::vector<Tier> tiers;
    for (const BlockHomes& block : shown_homes(graph, plan.choices).blocks)
      tiers.push_back(of_state ? block.state.home : block.frozen);
    CHECK(std::count(tiers.begin(), tiers.end(), Tier::kDisk) >= 1);
    CHECK(std::count(tiers.begin(), tiers.end(), Tier::kHost) >= 1);
    const Plan on_disk = plan_within(budget, Tier::kDisk);
    CHECK(plan.simulation.step_seconds(1) < on_disk.simulation.step_seconds(1));
  }
}

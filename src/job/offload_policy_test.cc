#include "job/offload_policy.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "config/load.h"

using namespace spillway;
using namespace spillway::train;

namespace {

config::LoadedConfig load(std::string_view keys) {
  constexpr std::string_view kSmall = "base_model: m\nlearning_rate: 1\ndatasets: [{path: a}]\n";
  return config::load_config(std::string(kSmall) + std::string(keys), "c.yml", {}, config::ConfigUse::kTrain);
}

constexpr std::string_view kLora = "adapter: lora\nlora_r: 4\n";
constexpr std::string_view kFixed = "memory: {plan: fixed}\n";

std::string shown(std::optional<ActivationPolicy> activation_policy) {
  return activation_policy ? std::string(name_of(*activation_policy)) : "?";
}
std::string shown(std::optional<Tier> tier) { return tier ? std::string(name_of(*tier)) : "?"; }

// "boundary attention product elementwise"; `?` is the planner's choice.
std::string shown(const SavedPolicy& saved) {
  return fmt::format("{} {} {} {}", shown(saved[0]), shown(saved[1]), shown(saved[2]), shown(saved[3]));
}

std::string saved(std::string_view keys) {
  const Policy policy = make_policy(load(keys).config.offload);
  return fmt::format("{}{}{}", shown(policy.saved), policy.synchronous ? " synchronous" : "",
                     policy.may_move_saved ? "" : " unmoved");
}

// Returns the activation policies of a layer with full attention and of layers with windows of eight and of sixteen
// tokens; rows have up to twelve.
std::vector<std::string> saved_by_layer(std::string_view selective) {
  const config::Config config =
      load(fmt::format("sequence_len: 12\ngradient_checkpointing: true\nselective_checkpointing: {}\n{}", selective,
                       kFixed))
          .config;
  const std::array<int64_t, 3> windows = {0, 8, 16};
  const Policy policy = make_policy(config.offload, windows, config.batches.sequence_len);
  return {shown(policy.saved_of(0)), shown(policy.saved_of(1)), shown(policy.saved_of(2))};
}

// "frozen trainable gradients optimizer"
std::string homes(std::string_view keys) {
  const Policy policy = make_policy(load(keys).config.offload);
  const auto home = [&](ValueKind kind, BlockId block = 0) {
    return shown(policy.home_of({.kind = kind, .block = block}));
  };
  return fmt::format("{} {} {} {} {}", home(ValueKind::kFrozenWeight), home(ValueKind::kTrainableWeight),
                     home(ValueKind::kFrozenWeight, kNone), home(ValueKind::kGradient),
                     home(ValueKind::kOptimizerState));
}

std::string error_of(std::string_view keys) {
  try {
    (void)load(keys);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// A computer with `ram` and, where it has a device of its own, that much memory there; 100 GiB of disk are free.
Machine computer(int64_t ram, int64_t device = 0) {
  Machine machine;
  machine.capacity_bytes = {device > 0 ? device : ram, device > 0 ? ram : 0, 100 * kGiB, 0};
  return machine;
}

std::string budgets(std::string_view keys, const Machine& machine) {
  const config::Config config = load(keys).config;
  const Budget budget = make_budget(config.memory, make_policy(config.offload), machine);
  const auto text = [](std::optional<int64_t> bytes) { return bytes ? format_bytes(*bytes) : std::string("-"); };
  return fmt::format("{}, {}, {}", text(budget.device), text(budget.host), text(budget.disk));
}

struct Row {
  std::string_view keys;
  std::string_view automatic;  // under memory.plan: auto
  std::string_view fixed;
};

}  // namespace

TEST_CASE("keys about saved activations fix what they say for full fine-tuning") {
  constexpr Row kRows[] = {
      {"", "? ? ? ?", "keep keep keep keep"},
      {"gradient_checkpointing: auto\n", "? ? ? ?", "keep keep keep keep"},
      {"gradient_checkpointing: false\n", "? keep keep keep", "keep keep keep keep"},
      {"gradient_checkpointing: true\n", "? recompute recompute recompute", "keep recompute recompute recompute"},
      {"gradient_checkpointing: offload\n", "host recompute recompute recompute", "host recompute recompute recompute"},
      {"gradient_checkpointing: offload_disk\n", "disk recompute recompute recompute",
       "disk recompute recompute recompute"},
      {"activation_offloading: false\n", "keep ? ? ? unmoved", "keep keep keep keep unmoved"},
      {"activation_offloading: true\n", "host ? ? ?", "host host host host"},
      {"activation_offloading: legacy\n", "host ? ? ? synchronous", "host host host host synchronous"},
      {"activation_offloading: disk\n", "disk ? ? ?", "disk disk disk disk"},
      {"activation_offloading: hidden_states\n", "host ? ? ?", "host keep keep keep"},
      {"gradient_checkpointing: true\nactivation_offloading: true\n", "host recompute recompute recompute",
       "host recompute recompute recompute"},
      {"gradient_checkpointing: true\nactivation_offloading: legacy\n",
       "host recompute recompute recompute synchronous", "host recompute recompute recompute synchronous"},
      {"gradient_checkpointing: true\nactivation_offloading: disk\n", "disk recompute recompute recompute",
       "disk recompute recompute recompute"},
      {"gradient_checkpointing: true\nactivation_offloading: hidden_states\n", "host recompute recompute recompute",
       "host recompute recompute recompute"},
      {"gradient_checkpointing: false\nactivation_offloading: true\n", "host host host host", "host host host host"},
      {"gradient_checkpointing: false\nactivation_offloading: hidden_states\n", "host keep keep keep",
       "host keep keep keep"},
      {"gradient_checkpointing: true\nselective_checkpointing: true\n", "? keep recompute recompute",
       "keep keep recompute recompute"},
      {"gradient_checkpointing: auto\nselective_checkpointing: {save: [attention, mm], offload: true}\n",
       "? host host recompute", "keep host host recompute"},
      {"gradient_checkpointing: true\nselective_checkpointing: {save: matmul}\nactivation_offloading: hidden_states\n",
       "host recompute keep recompute", "host recompute keep recompute"},
      {"selective_checkpointing: {offload: true}\nactivation_offloading: disk\ngradient_checkpointing: true\n",
       "disk disk recompute recompute", "disk disk recompute recompute"},
      {"gradient_checkpointing: true\nselective_checkpointing: {offload: true}\nactivation_offloading: false\n",
       "keep host recompute recompute unmoved", "keep host recompute recompute unmoved"},
  };
  for (const Row& row : kRows) {
    const std::string keys(row.keys);
    CAPTURE(keys);
    CHECK(saved(keys) == row.automatic);
    CHECK(saved(keys + std::string(kFixed)) == row.fixed);
  }
}

TEST_CASE("selective checkpointing saves nothing in layers of the types that are recomputed") {
  const std::string again = "keep recompute recompute recompute", kept = "keep keep recompute recompute",
                    both = "keep host host recompute", products = "keep recompute keep recompute";
  using Layers = std::vector<std::string>;
  CHECK(saved_by_layer("true") == Layers{kept, again, kept});
  CHECK(saved_by_layer("{save_sliding_window: false}") == Layers{kept, again, kept});
  CHECK(saved_by_layer("{save_sliding_window: true}") == Layers{kept, kept, kept});
  CHECK(saved_by_layer("{recompute_layer_types: []}") == Layers{kept, kept, kept});
  CHECK(saved_by_layer("{recompute_layer_types: null}") == Layers{kept, again, kept});
  CHECK(saved_by_layer("{recompute_layer_types: [chunked_attention]}") == Layers{kept, kept, kept});
  CHECK(saved_by_layer("{recompute_layer_types: full_attention}") == Layers{again, kept, again});
  CHECK(saved_by_layer("{recompute_layer_types: [full_attention, sliding_attention]}") == Layers{again, again, again});
  CHECK(saved_by_layer("{recompute_layer_types: [full_attention], save_sliding_window: true}") ==
        Layers{kept, kept, kept});
  CHECK(saved_by_layer("{save: [attention, mm], offload: true}") == Layers{both, again, both});
  CHECK(saved_by_layer("{save: ['aten::mm']}") == Layers{products, again, products});
}

TEST_CASE("offloading without checkpointing moves all that an adapter's training saves") {
  const std::string lora(kLora);
  CHECK(saved(lora) == "? ? ? ?");
  CHECK(saved(lora + "activation_offloading: true\n") == "host host host host");
  CHECK(saved(lora + "activation_offloading: legacy\n") == "host host host host synchronous");
  CHECK(saved(lora + "activation_offloading: disk\n") == "disk disk disk disk");
  CHECK(saved(lora + "activation_offloading: hidden_states\n") == "host ? ? ?");
  CHECK(saved(lora + "activation_offloading: true\ngradient_checkpointing: true\n") ==
        "host recompute recompute recompute");
}

TEST_CASE("keys about weights, gradients and the optimizer fix their homes") {
  constexpr Row kRows[] = {
      {"", "? ? ? ? ?", "device device device device device"},
      {"layer_offloading: true\n", "host ? ? ? ?", "host device device device device"},
      {"layer_offloading: disk\n", "disk ? ? ? ?", "disk device device device device"},
      {"layer_offloading: false\n", "device ? ? ? ?", "device device device device device"},
      {"parameter_offload: host\n", "host host host ? ?", "host host host device device"},
      {"parameter_offload: none\n", "device device device ? ?", "device device device device device"},
      {"parameter_offload: disk\nlayer_offloading: host\n", "host disk disk ? ?", "host disk disk device device"},
      {"parameter_offload: disk\nlayer_offloading: false\n", "device disk disk ? ?", "device disk disk device device"},
      {"gradient_offload: host\noptimizer_offload: disk\n", "? ? ? host disk", "device device device host disk"},
      {"gradient_offload: none\noptimizer_offload: none\n", "? ? ? device device",
       "device device device device device"},
      {"parameter_offload: auto\noptimizer_offload: auto\n", "? ? ? ? ?", "? ? ? device ?"},
  };
  for (const Row& row : kRows) {
    const std::string keys = std::string(row.keys) + std::string(kLora);
    CAPTURE(keys);
    CHECK(homes(keys) == row.automatic);
    CHECK(homes(keys + std::string(kFixed)) == row.fixed);
  }
}

TEST_CASE("experts live where expert_offload says, else with the rest of their layers") {
  // Returns the homes of frozen experts, of trained ones, and of the rest of their layers.
  const auto homes_of_experts = [](std::string_view keys) {
    const Policy policy = make_policy(load(std::string(keys) + std::string(kLora)).config.offload);
    const auto home = [&](ValueKind kind, std::string_view part) {
      return shown(policy.home_of({.kind = kind, .block = 0, .part = std::string(part)}));
    };
    return fmt::format("{} {}, {} {}", home(ValueKind::kFrozenWeight, kExpertPart),
                       home(ValueKind::kTrainableWeight, kExpertPart), home(ValueKind::kFrozenWeight, ""),
                       home(ValueKind::kTrainableWeight, ""));
  };
  CHECK(homes_of_experts("") == "? ?, ? ?");
  CHECK(homes_of_experts("layer_offloading: host\n") == "host ?, host ?");
  CHECK(homes_of_experts("expert_offload: disk\n") == "disk disk, ? ?");
  CHECK(homes_of_experts("expert_offload: none\nparameter_offload: host\n") == "device device, host host");
  CHECK(homes_of_experts("expert_offload: auto\nparameter_offload: host\n") == "? ?, host host");
  CHECK(homes_of_experts("expert_offload: host\nmemory: {plan: fixed}\n") == "host host, device device");
  CHECK(homes_of_experts("expert_offload: auto\nmemory: {plan: fixed}\n") == "? ?, device device");
}

TEST_CASE("ZeRO's offload sections place what they name") {
  const auto policy = [](std::string_view keys) { return make_policy(load(keys).config.offload); };
  const auto home = [](const Policy& of, ValueKind kind) { return of.home_of({.kind = kind, .block = 0}); };
  const auto zero = [](std::string_view keys) {
    return fmt::format("deepspeed: {{zero_optimization: {{{}}}}}\n", keys);
  };
  const Policy both = policy(zero("stage: 3, offload_param: {device: nvme}, offload_optimizer: {device: cpu}"));
  CHECK(home(both, ValueKind::kFrozenWeight) == Tier::kDisk);
  CHECK(home(both, ValueKind::kTrainableWeight) == Tier::kDisk);
  CHECK(home(both, ValueKind::kGradient) == Tier::kHost);
  CHECK(home(both, ValueKind::kOptimizerState) == Tier::kHost);
  const Policy none = policy(zero("stage: 2, offload_optimizer: {device: none}"));
  CHECK(home(none, ValueKind::kOptimizerState) == Tier::kDevice);
  CHECK(home(none, ValueKind::kGradient) == Tier::kDevice);
  CHECK(policy("deepspeed: {activation_checkpointing: {cpu_checkpointing: true}}\n")[SavedGroup::kBoundary] ==
        ActivationPolicy::kHost);
}

TEST_CASE("checkpointing keys that contradict each other are named together") {
  CHECK(error_of("gradient_checkpointing: false\nselective_checkpointing: true\n") ==
        "[c.yml:5: selective_checkpointing] expected gradient_checkpointing: true beside it, got false; remove one of "
        "them");
  CHECK(error_of("selective_checkpointing: true\n") ==
        "[c.yml:4: selective_checkpointing] expected gradient_checkpointing: true beside it, got none; set it");
  CHECK(error_of("gradient_checkpointing: unsloth\n") ==
        "[c.yml:4: gradient_checkpointing] expected auto, true, false, offload or offload_disk, got 'unsloth'; write "
        "one of these");
  CHECK(error_of("gradient_checkpointing: offload\nactivation_offloading: disk\n") ==
        "[c.yml:5: activation_offloading] expected true beside gradient_checkpointing: offload, got disk; write "
        "gradient_checkpointing: true");
  CHECK(error_of("selective_checkpointing: {sav: [attention]}\n") ==
        "[c.yml:4: selective_checkpointing.sav] expected save, offload, save_sliding_window, recompute_layer_types, "
        "save_modules or save_matmul_min_k, "
        "got 'sav'; did you mean save?");
  CHECK(error_of("selective_checkpointing: {save: [atention]}\n").find("did you mean attention?") != std::string::npos);
  CHECK(error_of("selective_checkpointing: {recompute_layer_types: [sliding_atention]}\n") ==
        "[c.yml:4: selective_checkpointing.recompute_layer_types.0] expected full_attention, sliding_attention, "
        "chunked_attention or linear_attention, got 'sliding_atention'; did you mean sliding_attention?");
  CHECK(error_of("activation_offloading: host\n") ==
        "[c.yml:4: activation_offloading] expected false, true, legacy, disk, hidden_states or none, got 'host'; write "
        "one of these");
}

TEST_CASE("older spellings and keys without an effect on the job are explained in a line") {
  CHECK(load("gradient_checkpointing: offload\nactivation_offloading: true\n").notes ==
        std::vector<std::string>{
            "gradient_checkpointing: offload is gradient_checkpointing: true with activation_offloading: true"});
  CHECK(load("layer_offloading: true\n").notes.size() == 1);
  CHECK(homes("layer_offloading: true\n") == "? ? ? ? ?");
  CHECK(load("layer_offloading: true\n" + std::string(kLora)).notes.empty());
}

TEST_CASE("a tier below the device is there when somebody asks for it") {
  const Machine laptop = computer(20 * kGiB);
  CHECK(budgets("", laptop) == "18.00 GiB, -, -");
  CHECK(budgets("memory: {device: 2GiB, host: 50%, disk: 3GiB}\n", laptop) == "2.00 GiB, 10.00 GiB, 3.00 GiB");
  CHECK(budgets("memory: {disk_paths: [/a, /b]}\n", laptop) == "18.00 GiB, -, 90.00 GiB");
  CHECK(budgets("activation_offloading: disk\n", laptop) == "18.00 GiB, -, 90.00 GiB");
  CHECK(budgets("optimizer_offload: auto\n", laptop) == "18.00 GiB, -, -");
  CHECK(budgets("", computer(64 * kGiB, 16 * kGiB)) == "14.40 GiB, 57.60 GiB, -");
  CHECK(budgets("memory: {host: 25%}\nlayer_offloading: disk\n" + std::string(kLora), computer(64 * kGiB, 16 * kGiB)) ==
        "14.40 GiB, 16.00 GiB, 90.00 GiB");
}

TEST_CASE("device and host never get more than the RAM that both are") {
  const Machine laptop = computer(20 * kGiB);
  CHECK(budgets("optimizer_offload: host\n", laptop) == "9.00 GiB, 9.00 GiB, -");
  CHECK(budgets("optimizer_offload: host\nmemory: {device: 4GiB}\n", laptop) == "4.00 GiB, 14.00 GiB, -");
  CHECK(budgets("memory: {host: 12GiB}\n", laptop) == "6.00 GiB, 12.00 GiB, -");
  CHECK(budgets("memory: {device: 40%, host: 60%}\n", laptop) == "8.00 GiB, 12.00 GiB, -");
  CHECK_THROWS_WITH_AS(
      budgets("memory: {device: 12GiB, host: 9GiB}\n", laptop),
      "[memory.host] expected at most 20.00 GiB together with memory.device, as both are RAM here, got "
      "12.00 GiB and 9.00 GiB; lower one",
      InputError);
  CHECK_THROWS_WITH_AS(budgets("memory: {host: 19GiB}\n", laptop),
                       "[memory.host] expected less than 18.00 GiB, as device and host memory are the same RAM here, "
                       "got 19.00 GiB; lower it",
                       InputError);
  CHECK_THROWS_AS(budgets("memory: {device: 19GiB}\noptimizer_offload: host\n", laptop), InputError);
}

TEST_CASE("no budget of memory is more than the machine has, whatever is free") {
  Machine laptop = computer(20 * kGiB);
  laptop.total_bytes = {32 * kGiB};
  CHECK(budgets("memory: {device: 30GiB}\n", laptop) == "30.00 GiB, -, -");
  CHECK_THROWS_WITH_AS(budgets("memory: {device: 33GiB}\n", laptop),
                       "[memory.device] expected at most the 32.00 GiB that this machine has, got 33.00 GiB; lower it",
                       InputError);
  CHECK_THROWS_WITH_AS(budgets("memory: {host: 33GiB}\n", laptop),
                       "[memory.host] expected at most the 32.00 GiB that this machine has, got 33.00 GiB; lower it",
                       InputError);
  CHECK_THROWS_WITH_AS(
      budgets("gpu_memory_limit: 33\n", laptop),
      "[gpu_memory_limit] expected at most the 32.00 GiB that this machine has, got 33.00 GiB; lower it", InputError);
  Machine server = computer(64 * kGiB, 16 * kGiB);
  server.total_bytes = {16 * kGiB, 64 * kGiB};
  CHECK_THROWS_AS(budgets("memory: {device: 17GiB}\n", server), InputError);
  CHECK_THROWS_AS(budgets("max_memory: {cpu: 65GiB}\n", server), InputError);
  CHECK(budgets("memory: {disk: 900GiB}\n", server) == "14.40 GiB, 57.60 GiB, 900.00 GiB");
  // The capacity of a tier need not be known.
  CHECK(budgets("memory: {device: 33GiB}\n", computer(20 * kGiB)) == "33.00 GiB, -, -");
}

TEST_CASE("a budget leaves a GPU's kernels and graphs what they may take") {
  Machine gpu = computer(64 * kGiB, 16 * kGiB);
  gpu.device = DeviceKind::kCuda;
  CHECK(budgets("", gpu) == "14.40 GiB, 57.60 GiB, -");
  CHECK(budgets("memory: {device: 15.5GiB}\n", gpu) == "15.50 GiB, 57.60 GiB, -");
  CHECK_THROWS_WITH_AS(budgets("memory: {device: 16GiB}\n", gpu),
                       "[memory.device] expected at most 15.50 GiB, the 16.00 GiB that are free on the GPU but for "
                       "512.0 MiB that kernels and graphs may take, got 16.00 GiB; lower it",
                       InputError);
  gpu.capacity_bytes[0] = 2 * kGiB;
  CHECK(budgets("", gpu) == "1.50 GiB, 57.60 GiB, -");
}

TEST_CASE("axolotl's and accelerate's budgets are budgets of the tiers") {
  const Machine laptop = computer(20 * kGiB);
  CHECK(budgets("gpu_memory_limit: 4\n", laptop) == "4.00 GiB, -, -");
  CHECK(budgets("gpu_memory_limit: 512MiB\n", laptop) == "512.0 MiB, -, -");
  for (const char* none : {"0", "false", "none", "null"}) {
    CAPTURE(none);
    CHECK(budgets(fmt::format("gpu_memory_limit: {}\n", none), laptop) == "18.00 GiB, -, -");
  }
  CHECK(budgets("max_memory: {0: 4GiB, cpu: 6GiB, disk: 9GiB}\n", laptop) == "4.00 GiB, 6.00 GiB, 9.00 GiB");
  CHECK(budgets("max_memory: {0: 4294967296}\n", laptop) == "4.00 GiB, -, -");
  CHECK(budgets("max_memory: [4GiB, 5GiB]\n", laptop) == "4.00 GiB, -, -");
  CHECK(budgets("max_memory: [4GiB, 5GiB]\ndevice: cuda:1\n", laptop) == "5.00 GiB, -, -");
  CHECK(load("max_memory: {0: 4GiB, 3: 5GiB}\n").notes ==
        std::vector<std::string>{"max_memory.3 does not matter: device 0 trains"});
  CHECK(budgets("gpu_memory_limit: 4\nmemory: {device: 4GiB}\n", laptop) == "4.00 GiB, -, -");
}

TEST_CASE("budgets that contradict each other are named together, with both values") {
  CHECK(
      error_of("gpu_memory_limit: 5\nmemory: {device: 4GiB}\n") ==
      "[c.yml:4: gpu_memory_limit] expected the 4GiB of memory.device, which is the same budget, got 5GiB; remove one");
  CHECK(error_of("memory: {host: 4GiB}\nmax_memory: {cpu: 5GiB}\n") ==
        "[c.yml:5: max_memory.cpu] expected the 4GiB of memory.host, which is the same budget, got 5GiB; remove one");
  CHECK(error_of("gpu_memory_limit: 5\nmax_memory: {0: 5GiB}\n") ==
        "[c.yml:5: max_memory] expected gpu_memory_limit or max_memory, got both; remove one");
  const std::vector<config::ConfigOverride> typed = {{"max_memory.0", "5GiB"}};
  CHECK_THROWS_WITH_AS(
      (void)config::load_config("base_model: m\nlearning_rate: 1\ndatasets: [{path: a}]\nmemory: {device: 4GiB}\n",
                                "c.yml", typed, config::ConfigUse::kTrain),
      "[--max_memory.0] expected the 4GiB of memory.device, which is the same budget, got 5GiB; remove one",
      InputError);
  CHECK(error_of("max_memory: {gpu: 5GiB}\n") ==
        "[c.yml:4: max_memory.gpu] expected a device's number, cpu or disk, got 'gpu'; remove it");
  CHECK(error_of("max_memory: 5GiB\n") ==
        "[c.yml:4: max_memory] expected a mapping, got '5GiB'; write `0: 20GiB` lines below the key");
  CHECK(error_of("max_memory: {0: }\n").find("expected a size such as 20GiB, got nothing") != std::string::npos);
  CHECK(error_of("gpu_memory_limit: much\n").starts_with("[c.yml:4: gpu_memory_limit] expected "));
}

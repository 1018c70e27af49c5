#include "config/deepspeed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "config/deepspeed_keys.h"
#include "config/fsdp.h"

using namespace spillway;
using namespace spillway::config;

namespace {

LoadedConfig load_deepspeed(std::string_view keys, std::vector<ConfigOverride> overrides = {}) {
  constexpr std::string_view kSmall = "base_model: m\nlearning_rate: 1e-4\ndatasets: [{path: a}]\n";
  return load_config(std::string(kSmall) + std::string(keys), "c.yml", overrides, ConfigUse::kTrain);
}

std::string deepspeed_error(std::string_view keys) {
  try {
    (void)load_deepspeed(keys);
  } catch (const InputError& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.find("] expected ") != std::string::npos);
    return text;
  }
  return "";
}

// A file that lives as long as the test.
class JsonFile {
 public:
  explicit JsonFile(std::string_view text) : path_(std::filesystem::temp_directory_path() / "spillway_ds_test.json") {
    std::ofstream(path_) << text;
  }
  ~JsonFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// As DeepSpeed users write it: tabs, no space after a colon, "auto" where the trainer knows.
constexpr std::string_view kZero3 =
    "{\n\t\"zero_optimization\":{\"stage\":3,\"overlap_comm\":true,\"stage3_max_live_parameters\":1e9,\n"
    "\t\t\"offload_param\":{\"device\":\"cpu\",\"pin_memory\":true},\n"
    "\t\t\"offload_optimizer\":{\"device\":\"nvme\",\"nvme_path\":\"/nvme\",\"buffer_count\":4}},\n"
    "\t\"bf16\":{\"enabled\":true},\"fp16\":{\"enabled\":\"auto\",\"loss_scale\":0},\n"
    "\t\"gradient_accumulation_steps\":\"auto\",\"train_batch_size\":\"auto\",\n"
    "\t\"train_micro_batch_size_per_gpu\":2,\"gradient_clipping\":0.5,\n"
    "\t\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":\"auto\",\"betas\":[0.8,0.95],\"eps\":1e-6,"
    "\"weight_decay\":0.1}},\n"
    "\t\"scheduler\":{\"type\":\"WarmupDecayLR\",\"params\":{\"warmup_num_steps\":7,\"warmup_min_lr\":0,\"warmup_max_"
    "lr\":\"auto\","
    "\"total_num_steps\":\"auto\"}},\n"
    "\t\"steps_per_print\":2000,\"wall_clock_breakdown\":false}\n";

void check_zero3(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  CHECK(config.offload.home_of(ValueKind::kTrainableWeight) == Offload::kHost);
  CHECK(config.offload.home_of(ValueKind::kOptimizerState) == Offload::kDisk);
  CHECK(config.offload.home_of(ValueKind::kGradient) == Offload::kDisk);
  CHECK(config.memory.disk_paths == std::vector<std::string>{"/nvme"});
  CHECK(config.model.bf16);
  CHECK(config.batches.micro_batch_size == 2);
  CHECK(config.optimizer.max_grad_norm == 0.5);
  CHECK(config.schedule.learning_rate == 1e-4);
  CHECK(config.optimizer.adam_beta1 == 0.8);
  CHECK(config.optimizer.adam_beta2 == 0.95);
  CHECK(config.optimizer.adam_epsilon == 1e-6);
  CHECK(config.optimizer.weight_decay == 0.1);
  CHECK(config.optimizer.decays_all);
  CHECK(config.schedule.lr_scheduler.name == "WarmupDecayLR");
  CHECK(config.schedule.warmup.of(100) == 7);
  CHECK(ignored_line(loaded) ==
        "ignored: deepspeed.zero_optimization.stage (on one rank there is nothing to shard); "
        "deepspeed.zero_optimization.overlap_comm, "
        "deepspeed.zero_optimization.stage3_max_live_parameters, "
        "deepspeed.zero_optimization.offload_param.pin_memory, "
        "deepspeed.zero_optimization.offload_optimizer.buffer_count, deepspeed.steps_per_print, "
        "deepspeed.wall_clock_breakdown (the plan places everything)");
}

std::string zero(std::string_view keys) { return fmt::format("deepspeed: {{zero_optimization: {{{}}}}}\n", keys); }

}  // namespace

TEST_CASE("a limit of gradients' norm that DeepSpeed would not know of holds, and is said") {
  const auto is_of_norm = [](const std::string& note) { return note.starts_with("max_grad_norm: 0.3 holds"); };
  const LoadedConfig own = load_deepspeed("max_grad_norm: 0.3\ndeepspeed: {zero_optimization: {stage: 2}}\n");
  CHECK(own.config.optimizer.max_grad_norm == 0.3);
  CHECK_FALSE(own.config.optimizer.decays_all);
  CHECK(std::any_of(own.notes.begin(), own.notes.end(), is_of_norm));
  for (const char* rest : {"0.3\ndeepspeed: {gradient_clipping: auto}\n", "1\ndeepspeed: {steps_per_print: 1}\n"}) {
    const LoadedConfig known = load_deepspeed(fmt::format("max_grad_norm: {}", rest));
    CHECK(std::none_of(known.notes.begin(), known.notes.end(), is_of_norm));
  }
}

TEST_CASE("DeepSpeed's cosine ends at its least learning rate") {
  const ScheduleSettings schedule =
      load_deepspeed(
          "deepspeed: {scheduler: {type: WarmupCosineLR, params: {cos_min_ratio: 0.1, warmup_num_steps: 3}}}\n")
          .config.schedule;
  CHECK(schedule.lr_scheduler.name == "WarmupCosineLR");
  CHECK(schedule.options.number("cos_min_ratio") == 0.1);
}

TEST_CASE("DeepSpeed's schedules warm up by its own rule, and end where it says") {
  const std::string_view decay =
      "deepspeed: {scheduler: {type: WarmupDecayLR, params: {warmup_max_lr: auto, warmup_num_steps: 3,";
  const ScheduleSettings left_out =
      load_deepspeed(fmt::format("{} total_num_steps: 16}}}}}}\n", decay)).config.schedule;
  CHECK(left_out.lr_scheduler.name == "WarmupDecayLR");
  CHECK(left_out.options.number("warmup_type") == 0);  // by the logarithm of the step
  CHECK(left_out.options.number("total_num_steps") == 16);
  const ScheduleSettings said =
      load_deepspeed(fmt::format("{} total_num_steps: auto, warmup_type: linear}}}}}}\n", decay)).config.schedule;
  CHECK(said.options.number("warmup_type") == 1);
  CHECK_FALSE(said.options.find("total_num_steps").has_value());
}

TEST_CASE("a schedule of DeepSpeed without a rate or steps, for which it has numbers of its own, is refused") {
  CHECK(
      deepspeed_error("deepspeed: {scheduler: {type: WarmupLR, params: {warmup_num_steps: auto}}}\n")
          .find("expected scheduler.params.warmup_max_lr beside WarmupLR, got none, for which DeepSpeed takes 0.001") !=
      std::string::npos);
  CHECK(deepspeed_error("deepspeed: {scheduler: {type: WarmupCosineLR}}\n").find("scheduler.params.warmup_num_steps") !=
        std::string::npos);
  CHECK(deepspeed_error("deepspeed: {scheduler: {type: OneCycle}}\n")
            .find("expected WarmupLR, WarmupDecayLR or WarmupCosineLR, got 'OneCycle'") != std::string::npos);
}

TEST_CASE("a DeepSpeed config means the same as a file, as JSON text and as a section") {
  const JsonFile file(kZero3);
  check_zero3(load_deepspeed("deepspeed: " + file.path() + "\n"));
  check_zero3(load_deepspeed("", {{"deepspeed", file.path()}}));
  std::string flat(kZero3);
  std::replace(flat.begin(), flat.end(), '\n', ' ');
  check_zero3(load_deepspeed("deepspeed: '" + flat + "'\n"));
  std::replace(flat.begin(), flat.end(), '\t', ' ');
  check_zero3(load_deepspeed("deepspeed: " + flat + "\n"));
}

TEST_CASE("ZeRO's offload sections and flags become offload keys") {
  const auto keys = [](std::string_view sections) { return load_deepspeed(sections).config; };
  const Config both = keys(zero("stage: 3, offload_param: {device: nvme}, offload_optimizer: {device: cpu}"));
  CHECK(both.offload.home_of(ValueKind::kTrainableWeight) == Offload::kDisk);
  CHECK(both.offload.home_of(ValueKind::kOptimizerState) == Offload::kHost);
  CHECK(both.offload.home_of(ValueKind::kGradient) == Offload::kHost);
  const Config neither = keys(zero("stage: 2, offload_optimizer: {device: none}"));
  CHECK(neither.offload.home_of(ValueKind::kOptimizerState) == Offload::kNone);
  CHECK(neither.offload.home_of(ValueKind::kGradient) == Offload::kNone);
  CHECK(keys(zero("stage: 2, cpu_offload: true")).offload.home_of(ValueKind::kOptimizerState) == Offload::kHost);
  CHECK_FALSE(keys(zero("stage: 2, cpu_offload: false")).offload.home_of(ValueKind::kOptimizerState));
  CHECK(keys(zero("stage: 3, offload_optimizer: {device: cpu}") + "gradient_offload: none\n")
            .offload.home_of(ValueKind::kGradient) == Offload::kNone);
  CHECK(keys("deepspeed: {activation_checkpointing: {cpu_checkpointing: true}}\n").offload.activations ==
        ActivationOffloading::kHiddenStates);
  const Config paths =
      load_deepspeed(
          zero("stage: 3, offload_param: {device: nvme, nvme_path: /a}, offload_optimizer: {device: nvme, nvme_path: "
               "/b}"))
          .config;
  CHECK(paths.memory.disk_paths == std::vector<std::string>{"/a", "/b"});
}

TEST_CASE("a ratio below one leaves the share to the plan, with a host tier to put it") {
  const LoadedConfig loaded = load_deepspeed(zero("stage: 3, offload_optimizer: {device: cpu, ratio: 0.3}"));
  CHECK(loaded.config.offload.home_of(ValueKind::kOptimizerState) == Offload::kAuto);
  CHECK(loaded.config.memory.host.is_asked);
  CHECK(loaded.notes.size() == 1);
  CHECK(load_deepspeed(zero("stage: 3, offload_optimizer: {device: cpu, ratio: 1.0}"))
            .config.offload.home_of(ValueKind::kOptimizerState) == Offload::kHost);
  CHECK(deepspeed_error(zero("stage: 3, offload_optimizer: {device: cpu, ratio: 2}"))
            .find("expected a number of at least 0 and at most 1, got '2'") != std::string::npos);
}

TEST_CASE("two spellings that differ are named, equal ones are fine, and the command line wins") {
  const std::string section = zero("stage: 3, offload_optimizer: {device: cpu}");
  CHECK(deepspeed_error("optimizer_offload: disk\n" + section) ==
        "[c.yml:5: deepspeed.zero_optimization.offload_optimizer.device] expected one value for optimizer_offload and "
        "zero_optimization.offload_optimizer.device, which mean the same, got 'disk' and 'host'; remove one");
  CHECK(load_deepspeed("optimizer_offload: host\n" + section).config.offload.home_of(ValueKind::kOptimizerState) ==
        Offload::kHost);
  CHECK(load_deepspeed("optimizer_offload: auto\n" + section).config.offload.home_of(ValueKind::kOptimizerState) ==
        Offload::kHost);
  CHECK(load_deepspeed(section, {{"optimizer_offload", "disk"}}).config.offload.home_of(ValueKind::kOptimizerState) ==
        Offload::kDisk);
  CHECK(deepspeed_error("deepspeed: {optimizer: {type: AdamW, params: {lr: 2e-4}}}\n")
            .find("expected one value for learning_rate and optimizer.params.lr, which mean the same") !=
        std::string::npos);
  CHECK(load_deepspeed("optimizer: adamw_torch_fused\ndeepspeed: {optimizer: {type: AdamW, params: {lr: 1.0e-4}}}\n")
            .config.schedule.learning_rate == 1e-4);
  CHECK(deepspeed_error("memory: {disk_paths: [/x]}\n" + zero("stage: 3, offload_param: {device: nvme, nvme_path: /y}"))
            .find("expected one value for memory.disk_paths") != std::string::npos);
}

TEST_CASE("DeepSpeed's batch sizes must agree") {
  CHECK(load_deepspeed("deepspeed: {train_batch_size: 8, train_micro_batch_size_per_gpu: 2}\n")
            .config.batches.gradient_accumulation_steps == 4);
  CHECK(load_deepspeed("gradient_accumulation_steps: 4\nmicro_batch_size: 2\ndeepspeed: {train_batch_size: 8}\n")
            .config.batches.gradient_accumulation_steps == 4);
  CHECK(deepspeed_error("gradient_accumulation_steps: 3\ndeepspeed: {train_batch_size: 8}\n")
            .find("expected a multiple of gradient_accumulation_steps, 3, got 8") != std::string::npos);
}

TEST_CASE("the section compile of axolotl's files is ignored by name") {
  // deepspeed_configs/zero1_torch_compile.json.
  const LoadedConfig loaded = load_deepspeed(R"(deepspeed: {"zero_optimization": {"stage": 1, "overlap_comm": true},)"
                                             R"( "compile": {"disable": false, "backend": "inductor"}})"
                                             "\n");
  for (const char* key : {"deepspeed.compile.disable", "deepspeed.compile.backend"})
    CHECK(std::find(loaded.ignored.begin(), loaded.ignored.end(), key) != loaded.ignored.end());
}

TEST_CASE("what DeepSpeed cannot mean here is refused with the nearest name or the reason") {
  CHECK(deepspeed_error(zero("stage: 3, offload_params: {device: cpu}")) ==
        "[c.yml:4: deepspeed.zero_optimization.offload_params] expected a key of DeepSpeed, got "
        "'zero_optimization.offload_params'; did you mean zero_optimization.offload_param?");
  CHECK(deepspeed_error(zero("stage: 3, offload_param: {device: gpu}"))
            .find("expected none, cpu or nvme, got 'gpu'; write one of them") != std::string::npos);
  CHECK(deepspeed_error(zero("stage: 4")).find("expected an integer of at least 0 and at most 3, got '4'") !=
        std::string::npos);
  CHECK(
      deepspeed_error(zero("stage: 0, offload_optimizer: {device: cpu}")).find("DeepSpeed moves nothing at stage 0") !=
      std::string::npos);
  CHECK(deepspeed_error("deepspeed: {amp: {enabled: true}}\n").find("bf16 is computed in its place: remove the key") !=
        std::string::npos);
  CHECK(deepspeed_error("deepspeed: {optimizer: {type: OneBitAdam}}\n")
            .find("expected AdamW, Adam or SGD, got 'OneBitAdam'") != std::string::npos);
  CHECK(deepspeed_error("deepspeed: {gradient_clipping: -1}\n").find("expected a number of at least 0, got '-1'") !=
        std::string::npos);
  CHECK(deepspeed_error("deepspeed: {zero_optimization: 3}\n").find("expected a section, got '3'") !=
        std::string::npos);
  CHECK(deepspeed_error("deepspeed: [a]\n").find("expected a mapping of DeepSpeed's keys, got a list of 1") !=
        std::string::npos);
  CHECK(deepspeed_error("deepspeed: '{\"fp16\": {\"enabled\": true}'\n").find("expected YAML") != std::string::npos);
  const JsonFile file("{\"bf16\": {\"enabled\": true},\n \"grdient_clipping\": 1}");
  CHECK(deepspeed_error("deepspeed: " + file.path() + "\n") ==
        fmt::format("[{}:2: grdient_clipping] expected a key of DeepSpeed, got 'grdient_clipping'; did you mean "
                    "gradient_clipping?",
                    file.path()));
  CHECK_FALSE(deepspeed_error("deepspeed: /nonexistent/ds.json\n").empty());
  CHECK_FALSE(deepspeed_error("deepspeed: /dev/zero\n").empty());
  CHECK(deepspeed_error("deepspeed:\n").empty());
  CHECK(deepspeed_error("deepspeed: false\n").empty());
}

TEST_CASE("every key of DeepSpeed's table that becomes one of ours names a key that there is") {
  for (const ForeignKey& key : deepspeed_table().keys) {
    CAPTURE(std::string(key.name));
    const bool has_ours = key.use == ForeignKey::Use::kBecomes && !key.text.empty();
    if (has_ours) CHECK((find_key(key.text) != nullptr && find_key(key.text)->status == KeyStatus::kSupported));
    if (key.use == ForeignKey::Use::kMustBeOff) CHECK_FALSE(key.text.empty());
  }
}

TEST_CASE("FSDP has nothing to shard on one rank, and its offload flag moves weights, gradients and the optimizer") {
  for (const char* keys : {"fsdp: [full_shard, auto_wrap, offload]\n", "fsdp: full_shard offload\n",
                           "fsdp_config: {offload_params: true, fsdp_state_dict_type: FULL_STATE_DICT}\n",
                           "fsdp_version: 2\nfsdp: [full_shard]\nfsdp_config: {fsdp_offload_params: true}\n"}) {
    CAPTURE(std::string(keys));
    const Config config = load_deepspeed(keys).config;
    CHECK(config.offload.home_of(ValueKind::kTrainableWeight) == Offload::kHost);
    CHECK(config.offload.home_of(ValueKind::kGradient) == Offload::kHost);
    CHECK(config.offload.home_of(ValueKind::kOptimizerState) == Offload::kHost);
  }
  const LoadedConfig plain =
      load_deepspeed("fsdp: [full_shard]\nfsdp_config: {offload_params: false, activation_checkpointing: true}\n");
  CHECK_FALSE(plain.config.offload.home_of(ValueKind::kTrainableWeight));
  CHECK(load_deepspeed("gradient_checkpointing: false\nfsdp_config: {activation_checkpointing: true}\n")
            .config.offload.gradient_checkpointing == true);
  CHECK(plain.config.offload.gradient_checkpointing == true);
  CHECK(plain.ignored == std::vector<std::string>{"fsdp.full_shard"});
  CHECK(load_deepspeed("fsdp: [offload]\noptimizer_offload: disk\n").config.offload.home_of(ValueKind::kGradient) ==
        Offload::kDisk);
  CHECK(load_deepspeed("fsdp: []\nfsdp_config: {}\n").ignored.empty());
  CHECK(deepspeed_error("fsdp: [full_shard]\ndeepspeed: false\n").empty());
  CHECK(deepspeed_error("fsdp: [full_shrd]\n").find("did you mean full_shard?") != std::string::npos);
  CHECK(deepspeed_error("fsdp_config: {ofload_params: true}\n").find("did you mean offload_params?") !=
        std::string::npos);
  CHECK(deepspeed_error("fsdp: [offload]\nparameter_offload: disk\n")
            .find("expected one value for parameter_offload and fsdp, which mean the same") != std::string::npos);
  CHECK(deepspeed_error("fsdp: [full_shard]\ndeepspeed: {bf16: {enabled: true}}\n")
            .find("expected fsdp or deepspeed, got both (c.yml:5: deepspeed)") != std::string::npos);
}

TEST_CASE("a value of deepspeed that is no config is named by its key, and an empty one is none") {
  CHECK(deepspeed_error("deepspeed: 3\n") ==
        "[c.yml:4: deepspeed] expected DeepSpeed's config as a file, JSON text or a mapping, got '3'; name a file that "
        "is "
        "there");
  CHECK(deepspeed_error("deepspeed: /nonexistent/zero.json\n").starts_with("[c.yml:4: deepspeed] expected"));
  CHECK(deepspeed_error("deepspeed: [a]\n").starts_with("[c.yml:4: deepspeed] expected a mapping"));
  for (const char* none : {"\"\"", "''", "false", "none", "null", "{}"}) {
    CAPTURE(std::string(none));
    CHECK(deepspeed_error(fmt::format("deepspeed: {}\n", none)).empty());
  }
}

#include "config/config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "config/help.h"
#include "config/keys.h"
#include "config/load.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;
using spillway::testing::small_config;

TEST_CASE("what a config leaves out has axolotl's default") {
  const Config config = load().config;
  CHECK(config.schedule.learning_rate == 2e-4);
  CHECK(config.batches.sequence_len == 512);
  CHECK(config.data.rows.length_rules == LengthRules::kAxolotl);
  CHECK(config.batches.micro_batch_size == 1);
  CHECK(config.batches.gradient_accumulation_steps == 1);
  CHECK(config.schedule.num_epochs == 1);
  CHECK(config.schedule.lr_scheduler.name == "cosine");
  CHECK(config.optimizer.optimizer == Optimizer{"adamw"});
  CHECK(config.model.bf16);
  CHECK(config.optimizer.max_grad_norm == 1);
  CHECK(!config.data.batches.shuffle_before_packing);
  CHECK(config.data.batches.packing_scope_rows == 1000);
  CHECK(config.output.output_dir == "./model-out");
  CHECK_FALSE(config.adapter);
  CHECK(config.data.datasets.at(0).type.name == "alpaca");
  CHECK(config.data.datasets[0].roles_to_train == std::vector<std::string>{"assistant"});
}

TEST_CASE("numbers, booleans and empty values are read as people write them") {
  const Config config = load(
                            "adapter: lora\nlora_r: '8'\nlora_alpha: 16.\nlora_target_linear: yes\nsample_packing: ON\n"
                            "weight_decay:\nval_set_size: .05\nseed: 1_000\nadam_epsilon: 1E-6\nmicro_batch_size: 2.0\n"
                            "save_strategy: no\nbf16: Off\n")
                            .config;
  CHECK(config.adapter->r == 8);
  CHECK(config.adapter->alpha == 16);
  CHECK(config.adapter->target_linear);
  CHECK(config.data.batches.packing == PackingStrategy::kFirstFit);
  CHECK(config.optimizer.weight_decay == 0);
  CHECK(config.data.val_set_size == 0.05);
  CHECK(config.seed == 1000);
  CHECK(config.optimizer.adam_epsilon == 1e-6);
  CHECK(config.batches.micro_batch_size == 2);
  CHECK(config.output.save.kind == Interval::Kind::kNever);
  CHECK_FALSE(config.model.bf16);
}

TEST_CASE("TRL's names mean the same as axolotl's") {
  const std::string text =
      "model_name_or_path: ./m\ndataset_name: a.jsonl\nlearning_rate: 1e-5\nper_device_train_batch_size: 4\n"
      "num_train_epochs: 3\noptim: adamw_torch\nlr_scheduler_type: linear\nmax_length: 1024\nuse_rslora: true\n"
      "per_device_eval_batch_size: 2\n";
  const Config config = load_config(text, "c.yml", {}, ConfigUse::kTrain).config;
  CHECK(config.model.base_model == "./m");
  CHECK(config.data.datasets.at(0).path == "a.jsonl");
  CHECK_FALSE(config.data.datasets[0].type.given);
  CHECK(config.batches.micro_batch_size == 4);
  CHECK(config.schedule.num_epochs == 3);
  CHECK(config.schedule.lr_scheduler.name == "linear");
  CHECK(config.batches.sequence_len == 1024);
  CHECK(config.data.rows.length_rules == LengthRules::kTrl);
  CHECK(config.data.evaluation_batches.rows == 2);
  CHECK(load_config(text + "dataset_train_split: 'train[:10%]'\n", "c.yml", {}, ConfigUse::kTrain)
            .config.data.datasets.at(0)
            .split == "train[:10%]");
  CHECK(load("dataset_train_split: x\n").ignored == std::vector<std::string>{"dataset_train_split"});
  CHECK(load_config(text + "dataset_config: en\n", "c.yml", {}, ConfigUse::kTrain).config.data.datasets.at(0).name ==
        "en");
}

TEST_CASE("the type of weights is TRL's word for bf16") {
  CHECK(load("dtype: bfloat16\n").config.model.bf16);
  CHECK(load("torch_dtype: float32\n").config.model.bf16);
  CHECK(error_of("dtype: bfloat16\nbf16: false\n") ==
        "[c.yml:6: dtype] expected bf16: true beside dtype: bfloat16, got false; remove one");
  // A run computes in bf16 as before, and writes what is said.
  CHECK_FALSE(load("bf16: true\n").config.model.written_dtype);
  CHECK(load("dtype: auto\n").config.model.written_dtype == std::nullopt);
  CHECK(load("dtype: bfloat16\n").config.model.written_dtype == DType::kBF16);
  CHECK(load("dtype: float32\n").config.model.written_dtype == DType::kF32);
}

TEST_CASE("f16 is computed in bf16 and written as f16, which one line says") {
  for (const char* keys : {"fp16: true\n", "float16: true\n", "fp16: true\nbf16: false\n", "fp16: true\nbf16: auto\n",
                           "dtype: float16\n", "torch_dtype: float16\nbf16: false\n", "dtype: float16\nbf16: true\n",
                           "deepspeed: {fp16: {enabled: true, loss_scale: 0}}\n"}) {
    CAPTURE(std::string(keys));
    const LoadedConfig loaded = load(keys);
    CHECK(loaded.config.model.bf16);
    CHECK(loaded.config.model.masters);
    CHECK(loaded.config.model.written_dtype == DType::kF16);
    REQUIRE(loaded.notes.size() == 1);
    CHECK(loaded.notes[0].ends_with(": f16 arithmetic is not computed; bf16 is, and the model is written in f16"));
  }
  CHECK(load("float16: true\n").notes[0].starts_with("float16: "));
  CHECK(load("torch_dtype: float16\n").notes[0].starts_with("torch_dtype: "));
  // An adapter is in f32.
  CHECK(load("fp16: true\nadapter: lora\nlora_r: 4\n").notes[0] == "fp16: f16 arithmetic is not computed; bf16 is");
  CHECK_FALSE(load("fp16: false\n").config.model.written_dtype);
  CHECK_FALSE(load("fp16: false\nbf16: false\n").config.model.bf16);
}

TEST_CASE("where bf16 and fp16 are true, bf16 wins as in axolotl, and TRL's configs are refused as by transformers") {
  const LoadedConfig both = load("bf16: true\nfp16: true\n");
  CHECK(both.ignored == std::vector<std::string>{"fp16"});
  CHECK_FALSE(both.config.model.written_dtype);
  CHECK(error_of("dtype: bfloat16\nfp16: true\n") ==
        "[c.yml:6: dtype] expected float16 beside fp16: true, got bfloat16; remove one");
  CHECK_THROWS_WITH_AS((void)load_config("model_name_or_path: m\ndataset_name: d\nbf16: true\nfp16: true\n", "c.yml",
                                         {}, ConfigUse::kTrain),
                       "[c.yml:4: fp16] expected bf16 or fp16, got both; remove one", InputError);
}

TEST_CASE("TRL's switch for adapters brings TRL's defaults") {
  const Config plain = load("use_peft: true\n").config;
  REQUIRE(plain.adapter);
  CHECK(plain.adapter->r == 16);
  CHECK(plain.adapter->alpha == 32);
  CHECK(plain.adapter->dropout == 0.05);
  const Config given = load("use_peft: true\nlora_r: 4\nlora_alpha: 8\nlora_dropout: 0\n").config;
  CHECK(given.adapter->r == 4);
  CHECK(given.adapter->alpha == 8);
  CHECK(given.adapter->dropout == 0);
  CHECK(load("use_peft: true\nadapter: lora\nlora_r: 4\n").config.adapter->alpha == 4);
  CHECK(load("use_peft: false\nlora_r: 4\n").ignored == std::vector<std::string>{"lora_r"});
  CHECK(error_of("use_peft: false\nadapter: lora\nlora_r: 4\n") ==
        "[c.yml:6: use_peft] expected the same as adapter, got false and lora; remove one");
  CHECK(error_of("use_peft: true\nadapter: none\n").find("got true and none") != std::string::npos);
}

TEST_CASE("a dataset takes its own keys") {
  const Config config =
      load(
          "test_datasets:\n  - path: b.jsonl\n    type: chat_template\n    field_messages: conversations\n"
          "    message_property_mappings: {role: from, content: value}\n    message_field_role: from\n"
          "    roles: {assistant: [gpt, model], user: human}\n    train_on_eos: last\n"
          "    chat_template_jinja: '{{ messages }}'\n")
          .config;
  const DatasetConfig& dataset = config.data.test_datasets.at(0);
  CHECK(dataset.field_messages == "conversations");
  CHECK(dataset.message_property_mappings.at("content") == "value");
  CHECK(dataset.roles.at("assistant") == std::vector<std::string>{"gpt", "model"});
  CHECK(dataset.roles.at("user") == std::vector<std::string>{"human"});
  CHECK(dataset.train_on_eos == TrainOnEos::kLast);
  CHECK(dataset.chat_template == "jinja");
}

TEST_CASE("an unknown key names the nearest known one and where it stands") {
  CHECK(error_of("lora_rr: 3\n") ==
        "[c.yml:6: lora_rr] expected a known key, got 'lora_rr'; did you mean lora_r? `spillway train --help-config` "
        "lists them all");
  CHECK(error_of("learnign_rate: 3\n").find("did you mean learning_rate?") != std::string::npos);
  CHECK(error_of("memory:\n  devise: 3\n")
            .starts_with(
                "[c.yml:7: memory.devise] expected a known key, got 'memory.devise'; did you mean memory.device?"));
  CHECK(error_of("test_datasets:\n  - path: x\n    feild: y\n")
            .starts_with("[c.yml:8: test_datasets.0.feild] expected a known key, got 'feild'; did you mean field?"));
  CHECK(error_of("", {{"micro_batch_sise", "1"}})
            .starts_with(
                "[--micro_batch_sise] expected a known key, got 'micro_batch_sise'; did you mean micro_batch_size?"));
  CHECK(error_of("", {{"datasets.0.pth", "1"}})
            .starts_with("[--datasets.0.pth] expected a known key, got 'pth'; did you mean path?"));
  CHECK(error_of("zzzzzzzzzzzzzzzzzzzzz: 1\n") ==
        "[c.yml:6: zzzzzzzzzzzzzzzzzzzzz] expected a known key, got 'zzzzzzzzzzzzzzzzzzzzz'; `spillway train "
        "--help-config` lists them all");
}

TEST_CASE("two spellings of a key must agree") {
  CHECK(load("micro_batch_size: 2\nper_device_train_batch_size: 2.0\n").config.batches.micro_batch_size == 2);
  CHECK(load("micro_batch_size:\nper_device_train_batch_size: 4\n").config.batches.micro_batch_size == 4);
  CHECK(error_of("micro_batch_size: 2\nper_device_train_batch_size: 4\n") ==
        "[c.yml:7: per_device_train_batch_size] expected one value for micro_batch_size and "
        "per_device_train_batch_size, which are the same key, got '2' and '4'; remove one");
  CHECK(error_of("sequence_len: 512\nmax_length: 1024\n") ==
        "[c.yml:7: max_length] expected the length of sequence_len, 512, got 1024; remove sequence_len or max_length");
  CHECK(load("sequence_len: 256\nmax_length: 256\n").config.data.rows.length_rules == LengthRules::kAxolotl);
  CHECK(error_of("", {{"micro_batch_size", "2"}, {"per-device-train-batch-size", "4"}}).find("are the same key") !=
        std::string::npos);
}

TEST_CASE("a wrong value says what was expected") {
  CHECK(error_of("micro_batch_size: 0\n") ==
        "[c.yml:6: micro_batch_size] expected an integer of at least 1 and at most 1048576, got '0'; change the value");
  CHECK(error_of("micro_batch_size: 1.5\n").starts_with("[c.yml:6: micro_batch_size] expected an integer"));
  CHECK(error_of("weight_decay: much\n") ==
        "[c.yml:6: weight_decay] expected a number of at least 0 and at most 1000, got 'much'; change the value");
  CHECK(error_of("weight_decay: .nan\n").starts_with("[c.yml:6: weight_decay] expected a number"));
  CHECK(error_of("weight_decay: 1e999\n").starts_with("[c.yml:6: weight_decay] expected a number"));
  CHECK(error_of("num_epochs: 0\n")
            .starts_with("[c.yml:6: num_epochs] expected a number above 0 and at most 1000000, got '0'"));
  CHECK(error_of("seed: [1]\n").starts_with("[c.yml:6: seed] expected an integer of at least 0, got a list of 1"));
  CHECK(error_of("lora_target_linear: maybe\n") ==
        "[c.yml:6: lora_target_linear] expected true or false, got 'maybe'; write one of them");
  CHECK(error_of("bf16: sometimes\n") ==
        "[c.yml:6: bf16] expected auto, true, full or false, got 'sometimes'; write one of these");
  CHECK(error_of("lr_scheduler: cosin\n") ==
        "[c.yml:6: lr_scheduler] expected constant, constant_with_warmup, linear, cosine, cosine_with_restarts, "
        "cosine_with_min_lr, cosine_warmup_with_min_lr, polynomial, inverse_sqrt, warmup_stable_decay, rex, one_cycle, "
        "WarmupLR, WarmupDecayLR or WarmupCosineLR, got 'cosin'; did you mean cosine?");
  CHECK(error_of("output_dir: [a]\n") == "[c.yml:6: output_dir] expected text, got a list of 1; write one value");
  CHECK(error_of("lora_target_modules: {a: b}\n") ==
        "[c.yml:6: lora_target_modules] expected a list, got a mapping; write `- value` lines or [a, b]");
  CHECK(error_of("lora_target_modules: [a, ]\n").empty());
  CHECK(error_of("lora_target_modules:\n  - a\n  -\n") ==
        "[c.yml:6: lora_target_modules.1] expected text, got nothing; write a value or remove it");
  CHECK(error_of("test_datasets: x.jsonl\n") ==
        "[c.yml:6: test_datasets] expected a list, got 'x.jsonl'; write `- path: FILE` lines");
  CHECK(error_of("test_datasets: [x.jsonl]\n") ==
        "[c.yml:6: test_datasets.0] expected a mapping with a path, got 'x.jsonl'; write `- path: FILE`");
  CHECK(error_of("test_datasets: [{type: alpaca}]\n") ==
        "[c.yml:6: test_datasets.0.path] expected a file or a folder, got nothing; set it");
  CHECK(error_of("test_datasets: [{path: a, type: {format: x}}]\n").empty());
  CHECK(error_of("test_datasets: [{path: a, type: {formt: x}}]\n").find("got 'formt'; did you mean format?") !=
        std::string::npos);
  CHECK(error_of("test_datasets: [{path: a, type: {}}]\n").find("expected a format or fields") != std::string::npos);
  CHECK(error_of("test_datasets: [{path: a, shards: 2, shards_idx: 2}]\n").find("expected a part from 0 to 1, got 2") !=
        std::string::npos);
  CHECK(error_of("test_datasets: [{path: a, roles: x}]\n")
            .find("expected a mapping, got 'x'; write `name: value` lines below the key") != std::string::npos);
  CHECK(error_of("memory: 8GiB\n") ==
        "[c.yml:6: memory] expected a mapping, got '8GiB'; write `name: value` lines below the key");
  CHECK(error_of("memory: {device: lots}\n")
            .starts_with("[c.yml:6: memory.device] expected a size such as 4096, 512MiB"));
  CHECK(error_of("device: tpu\n") ==
        "[c.yml:6: device] expected auto, cpu, cuda or cuda:N, got 'tpu'; write one of them");
  CHECK(error_of("", {{"datasets.7.path", "x"}}) ==
        "[--datasets.7.path] expected an index from 0 to 1, got '7'; change it");
  CHECK(error_of("", {{"seed.x", "1"}}).starts_with("[--seed] expected an integer of at least 0, got a mapping"));
}

TEST_CASE("keys that exclude each other are named together") {
  CHECK(error_of("gradient_accumulation_steps: 2\nbatch_size: 4\n") ==
        "[c.yml:7: batch_size] expected gradient_accumulation_steps or batch_size, got both; remove one");
  CHECK(error_of("warmup_steps: 2\nwarmup_ratio: 0.1\n").find("expected warmup_steps or warmup_ratio, got both") !=
        std::string::npos);
  CHECK(error_of("save_steps: 2\nsaves_per_epoch: 1\n").find("expected save_steps or saves_per_epoch, got both") !=
        std::string::npos);
  CHECK(error_of("val_set_size: 0.1\neval_steps: 2\nevals_per_epoch: 1\n")
            .find("expected eval_steps or evals_per_epoch, got both") != std::string::npos);
  CHECK(error_of("val_set_size: 0.1\ntest_datasets: [{path: x}]\n")
            .find("expected val_set_size or test_datasets, got both") != std::string::npos);
  CHECK(error_of("sample_packing: true\nbatch_flattening: true\n")
            .find("expected sample_packing or padding_free, got both") != std::string::npos);
  CHECK(error_of("sample_packing: true\nbatch_flattening: auto\n").empty());
  CHECK(error_of("dataset_name: x\n").find("expected datasets or dataset_name, got both") != std::string::npos);
  CHECK(error_of("save_strategy: epoch\nsave_steps: 2\n") ==
        "[c.yml:6: save_strategy] expected steps beside save_steps, got epoch; remove one of them");
  CHECK(error_of("val_set_size: 0\neval_steps: 2\n") ==
        "[c.yml:7: eval_steps] expected rows to evaluate on, got val_set_size 0; set val_set_size or test_datasets");
}

TEST_CASE("modules of an adapter are a list of names, or a pattern that whole paths match, as PEFT takes them") {
  const auto targets = [](std::string_view value) {
    return load(fmt::format("adapter: lora\nlora_r: 4\nlora_target_modules: {}\n", value))
        .config.adapter->target_modules;
  };
  CHECK(targets("[q_proj]").names == std::vector<std::string>{"q_proj"});
  CHECK(targets("['.*q_proj']").pattern == ".*q_proj");
  CHECK(targets("model.layers.0.self_attn.q_proj").pattern == "model.layers.0.self_attn.q_proj");
  CHECK(error_of("lora_target_modules: q_proj\n") ==
        "[c.yml:6: lora_target_modules] expected a list of names, or a pattern that whole paths match, got the text "
        "'q_proj'; write [q_proj]");
  CHECK(error_of("lora_target_modules: 5\n") ==
        "[c.yml:6: lora_target_modules] expected text, got 5 without quotes; write \"5\" if it is a name");
  CHECK(error_of("lora_target_modules: [q_proj, true]\n").find("lora_target_modules.1] expected text, got true") !=
        std::string::npos);
  // The same with and without an adapter; the byte counts from the start of what was written.
  CHECK(error_of("lora_target_modules: 'q['\n").find("expected a closing ']' at byte 2") != std::string::npos);
}

TEST_CASE("text ends at no NUL character") {
  for (const char* line : {"output_dir: \"a\\0b\"", "memory: {disk_paths: [\"a\\0b\"]}",
                           "test_datasets: [{path: \"a\\0b\"}]", "pretraining_dataset: \"a\\0b\""}) {
    CAPTURE(std::string(line));
    CHECK(error_of(std::string(line) + "\n").find("expected text, got a NUL character behind 'a'; remove it") !=
          std::string::npos);
  }
}

TEST_CASE("a device with no memory at all is refused") {
  for (const char* line : {"memory: {device: 0}", "memory: {device: 0%}", "max_memory: {0: 0}"}) {
    CAPTURE(std::string(line));
    CHECK(error_of(std::string(line) + "\n").find("expected more than nothing, got '0") != std::string::npos);
  }
  CHECK(error_of("memory: {host: 0, disk: 0}\ngpu_memory_limit: 0\n").empty());
}

TEST_CASE("values that follow from others are filled in or refused") {
  CHECK(load("micro_batch_size: 2\nbatch_size: 8\n").config.batches.gradient_accumulation_steps == 4);
  CHECK(error_of("micro_batch_size: 3\nbatch_size: 8\n") ==
        "[c.yml:7: batch_size] expected a multiple of micro_batch_size, 3, got 8; change one of them");
  CHECK(error_of("batch_size: 8\n") ==
        "[c.yml:6: batch_size] expected micro_batch_size beside it, got neither that nor gradient_accumulation_steps; "
        "set micro_batch_size");
  CHECK(load("deepspeed: {train_batch_size: 8}\n").config.batches.gradient_accumulation_steps == 8);
  CHECK(load("adapter: lora\nlora_r: 4\n").config.adapter->alpha == 4);
  CHECK(load("adapter: lora\nlora_r: 4\nlora_target_modules: all-linear\n").config.adapter->target_linear);
  CHECK(error_of("adapter: lora\n") ==
        "[c.yml:6: adapter] expected lora_r beside adapter: lora, got none; set lora_r, for example 16");
  CHECK(error_of("lora_model_dir: x\n").find("expected adapter: lora beside lora_model_dir, got none") !=
        std::string::npos);
  CHECK(error_of("chat_template: jinja\n").find("expected chat_template_jinja beside chat_template: jinja, got none") !=
        std::string::npos);
  CHECK(error_of("chat_template: chatml\nchat_template_jinja: x\n")
            .find("expected chat_template: jinja beside chat_template_jinja, got 'chatml'") != std::string::npos);
  CHECK(error_of("chat_template: chatmll\n").find("did you mean chatml?") != std::string::npos);
  CHECK(error_of("chat_template: command_a\n").find("tokenizer_default takes") != std::string::npos);
  CHECK(error_of("chat_template: tokenizer_default_fallback_lama3\n").find("did you mean llama3?") !=
        std::string::npos);
  CHECK(load("chat_template: tokenizer_default_fallback_chatml\n").config.data.rows.chat_template ==
        "tokenizer_default_fallback_chatml");
  const Config pattern = load("adapter: lora\nlora_r: 4\nlora_target_modules: '.*_proj'\n").config;
  CHECK(pattern.adapter->target_modules.pattern == ".*_proj");
  CHECK(pattern.adapter->target_modules.names.empty());
  CHECK(error_of("min_sample_len: 1000\n").find("expected at most sequence_len, 512, got 1000") != std::string::npos);
  CHECK(error_of("truncation_mode: keep_end\n").find("expected max_length beside truncation_mode, got none") !=
        std::string::npos);
  CHECK(error_of("max_length: 64\nexcess_length_strategy: drop\n")
            .find("expected truncate beside max_length, got another") != std::string::npos);
  CHECK(error_of("save_steps: 2.5\n").find("expected an integer or a share below 1, got 2.5") != std::string::npos);
  CHECK_FALSE(load("max_steps: -1\n").config.schedule.max_steps);
  CHECK(load("resume_from_checkpoint: true\n").config.output.auto_resume_from_checkpoints);
  CHECK(load("resume_from_checkpoint: latest\n").config.output.auto_resume_from_checkpoints);
  CHECK(load("resume_from_checkpoint: latest\n").config.output.resume_from_checkpoint.empty());
  CHECK(error_of("", {{"output_dir", ""}}).empty());
  CHECK(error_of("output_dir: ''\n").find("expected a folder, got nothing") != std::string::npos);
  CHECK(error_of("test_datasets: [{path: a, message_field_role: x, message_property_mappings: {role: y}}]\n")
            .find("expected the name in message_property_mappings.role, 'y', got 'x'") != std::string::npos);
  CHECK(load("lr_scheduler: constant\nwarmup_steps: 3\n").ignored == std::vector<std::string>{"warmup_steps"});
}

TEST_CASE("a config needs a model, rows and, to train, a learning rate") {
  const auto error = [](std::string_view text, ConfigUse use) -> std::string {
    try {
      (void)load_config(text, "c.yml", {}, use);
    } catch (const InputError& problem) {
      return problem.what();
    }
    return "";
  };
  CHECK(error("", ConfigUse::kTrain) == "[base_model] expected a Hugging Face folder, got nothing; set base_model");
  CHECK(error("base_model: m\n", ConfigUse::kTrain) ==
        "[learning_rate] expected a number, got nothing; set learning_rate, for example 2e-4");
  CHECK(error("base_model: m\n", ConfigUse::kPreprocess) ==
        "[datasets] expected at least one dataset, got none; write `- path: FILE` below `datasets:`");
  CHECK(error("base_model: m\ndatasets: [{path: x}]\n", ConfigUse::kPreprocess).empty());
  CHECK(error("- a\n- b\n", ConfigUse::kTrain) ==
        "[c.yml] expected `key: value` lines, got a list of 2; write a mapping");
}

TEST_CASE("a config file that is missing or no regular file is refused at once") {
  CHECK_THROWS_AS((void)load_config_file("/nonexistent/c.yml", {}, ConfigUse::kTrain), InputError);
  CHECK_THROWS_AS((void)load_config_file("/dev", {}, ConfigUse::kTrain), InputError);
  CHECK_THROWS_AS((void)load_config_file("/dev/zero", {}, ConfigUse::kTrain), InputError);
}

TEST_CASE("saving and evaluating come out in steps") {
  const auto output = [](std::string_view keys) { return load(keys).config.output; };
  CHECK(output("").save.steps(100, 25) == 25);
  CHECK(output("val_set_size: 0.1\n").evaluate.steps(100, 25) == 25);
  CHECK(output("saves_per_epoch: 2\n").save.steps(100, 25) == 13);
  CHECK(output("saves_per_epoch: 0\n").save.steps(100, 25) == 0);
  CHECK(output("val_set_size: 0.1\neval_steps: 0.101\n").evaluate.steps(100, 25) == 11);
  CHECK(output("val_set_size: 0.1\nlogging_steps: 7\neval_strategy: steps\n").evaluate.steps(100, 25) == 7);
  CHECK(output("logging_steps: 7\n").logging_steps.of(100) == 7);
  CHECK(output("logging_steps: 0.33\n").logging_steps.of(10) == 4);  // ceil(share x steps), as save_steps
  CHECK(output("save_strategy: steps\n").save.steps(1000, 25) == 500);
  CHECK(output("save_strategy: no\n").save.steps(100, 25) == 0);
  CHECK(output("val_set_size: 0\nevals_per_epoch: 2\n").evaluate.steps(100, 25) == 0);
}

TEST_CASE("every key of the table has a meaning and is found by each of its names") {
  for (const KeySection& section : config_sections()) {
    for (const ConfigKey& row : section.keys) {
      CAPTURE(std::string(row.name));
      CHECK_FALSE(row.meaning.empty());
      const bool is_read = row.status == KeyStatus::kSupported || row.spares_rows;
      CHECK((row.type == nullptr || is_read));
      CHECK((row.status != KeyStatus::kSupported || row.type != nullptr));
      if (!row.name.ends_with('*')) CHECK(find_key(row.name) == &row);
      for (const std::string_view alias : row.aliases) CHECK(find_key(alias) == &row);
    }
  }
}

TEST_CASE("docs/config.md is what the table says") {
  std::ifstream stream(SPILLWAY_SOURCE_DIR "/docs/config.md");
  std::stringstream page;
  page << stream.rdbuf();
  CHECK_MESSAGE(page.str() == config_markdown(),
                "write it again: spillway train --help-config --markdown > docs/config.md");
  CHECK(config_help().find("learning_rate") != std::string::npos);
}

// Keys that are set on the command line.
#include <doctest/doctest.h>

#include "base/error.h"
#include "config/load.h"
#include "tests/support/environment.h"
#include "tests/support/small_config.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::small_config;

namespace {

LoadedConfig load_with(std::string_view more, std::vector<ConfigOverride> overrides) {
  return load_config(small_config(more), "c.yml", overrides, ConfigUse::kTrain);
}

}  // namespace

TEST_CASE("a config is written with what the command line says in it, and is the same config") {
  const std::string text =
      small_config("per_device_train_batch_size: 4\nmemory: {device: 1GiB}\nadapter: lora\nlora_r: 4\nseed: \"1\"\n");
  const ConfigSource source = {text,
                               "c.yml",
                               {{"sequence_len", "512"},
                                {"micro_batch_size", "2"},
                                {"memory.device", "400MiB"},
                                {"memory.disk", "80%"},
                                {"datasets.1.path", "y: #1.jsonl"},
                                {"chat_template_jinja", "{{ a }}: [b]"},
                                {"lora_target_modules", "[q_proj, v_proj]"}},
                               ConfigUse::kTrain};
  const std::string written = written_config(source);
  CAPTURE(written);
  CHECK(written.find("per_device") == std::string::npos);
  const Config said = load_config(source.text, source.name, source.overrides, source.use).config;
  const Config again = load_config(written, "d.yml", {}, ConfigUse::kTrain).config;
  for (const Config* config : {&said, &again}) {
    CHECK(config->batches.sequence_len == 512);
    CHECK(config->batches.micro_batch_size == 2);
    CHECK(config->memory.device.size == "400MiB");
    CHECK(config->memory.disk.size == "80%");
    CHECK(config->data.datasets.at(1).path == "y: #1.jsonl");
    CHECK(config->adapter->target_modules.names == std::vector<std::string>{"q_proj", "v_proj"});
    CHECK(config->seed == 1);
  }
  CHECK(written_config({written, "d.yml", {}, ConfigUse::kTrain}) == written);
}

TEST_CASE("the command line overrides any key") {
  const Config config = load_with("per_device_train_batch_size: 4\nmemory: {device: 1GiB}\nadapter: lora\nlora_r: 4\n",
                                  {{"micro-batch-size", "2"},
                                   {"datasets.0.path", "x.jsonl"},
                                   {"datasets.1.path", "y.jsonl"},
                                   {"memory.device", "400MiB"},
                                   {"lora_target_modules", "[q_proj, v_proj]"},
                                   {"datasets.0.message_property_mappings.role", "from"},
                                   {"seed", "1"},
                                   {"seed", "7"}})
                            .config;
  CHECK(config.batches.micro_batch_size == 2);
  CHECK(config.data.datasets.at(0).path == "x.jsonl");
  CHECK(config.data.datasets[0].type.name == "alpaca");
  CHECK(config.data.datasets[0].message_property_mappings.at("role") == "from");
  CHECK(config.data.datasets.at(1).path == "y.jsonl");
  CHECK(config.memory.device.size == "400MiB");
  CHECK(config.adapter->target_modules.names == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(config.seed == 7);
}

TEST_CASE("an empty override brings the default back") {
  CHECK(load_with("seed: 5\n", {{"seed", ""}}).config.seed == 42);
}

TEST_CASE("a spelling on the command line takes the place of the file's in entries, too") {
  for (const std::string key : {"datasets", "test_datasets", "pretraining_dataset"}) {
    CAPTURE(key);
    const std::string keys = "max_steps: 3\n" + std::string(key == "datasets" ? "" : "datasets: [{path: d}]\n") + key +
                             ": [{path: x, type: chat_template, template_thinking_key: a}]\n";
    const Config config = load_config("base_model: m\nlearning_rate: 1\n" + keys, "c.yml",
                                      std::vector<ConfigOverride>{{key + ".0.field_thinking", "b"}}, ConfigUse::kTrain)
                              .config;
    CHECK((key == "test_datasets" ? config.data.test_datasets : config.data.datasets).at(0).field_thinking == "b");
  }
}

TEST_CASE("what is wrong below a key of the command line is named with its whole path") {
  const std::pair<ConfigOverride, std::string_view> kWrong[] = {
      {{"selective_checkpointing.save", "[atention]"}, "[--selective_checkpointing.save.0] expected attention"},
      {{"selective_checkpointing", "{save: [atention]}"}, "[--selective_checkpointing.save.0] expected attention"},
      {{"deepspeed", "{amp: {enabled: true}}"}, "[--deepspeed.amp] expected DeepSpeed's amp to be off"},
      {{"memory.device", "101%"}, "[--memory.device] expected a size"}};
  for (const auto& [change, message] : kWrong) {
    CAPTURE(change.key);
    CHECK_THROWS_WITH_AS((void)load_with("", {change}), doctest::Contains(std::string(message).c_str()), InputError);
  }
}

TEST_CASE("~ at the beginning of a path is the home folder, in a file as on the command line") {
  const spillway::testing::Environment home{{{"HOME", "/home/ada"}}};
  const Config config = load_with("tokenizer_config: ~/words\nmemory: {disk_paths: [~/scratch, /fast]}\n",
                                  {{"output_dir", "~/runs/x"}, {"datasets.0.path", "~/rows.jsonl"}})
                            .config;
  CHECK(config.tokenizer.folder == "/home/ada/words");
  CHECK(config.output.output_dir == "/home/ada/runs/x");
  CHECK(config.data.datasets.at(0).path == "/home/ada/rows.jsonl");
  CHECK(config.memory.disk_paths == std::vector<std::string>{"/home/ada/scratch", "/fast"});
}

TEST_CASE("a group of keys takes a mapping on the command line, and JSON text in a file") {
  const LoadedConfig loaded =
      load_with("trl: '{\"temperature\": 0.7}'\n", {{"memory", "{device: 400MiB, disk_paths: [a, b]}"}});
  CHECK(loaded.config.memory.device.size == "400MiB");
  CHECK(loaded.config.memory.disk_paths == std::vector<std::string>{"a", "b"});
  CHECK(loaded.keys.temperature == 0.7);
  // A name that is a key, too, is the group where it has a mapping, as in a file.
  CHECK(load_with("", {{"tokens", "{pad_token: <pad>}"}}).config.tokenizer.special_tokens.pad_token == "<pad>");
  CHECK(load_with("", {{"tokens", "[<a>]"}}).config.tokenizer.special_tokens.tokens == std::vector<std::string>{"<a>"});
  CHECK_THROWS_WITH_AS((void)load_with("", {{"memory", "{devise: 1GiB}"}}),
                       doctest::Contains("[--memory.devise] expected a known key"), InputError);
}

TEST_CASE("a value in double quotes is a text, whatever it would be without them") {
  const auto pad = [](const std::string& value) {
    return load_with("", {{"special_tokens.pad_token", value}}).config.tokenizer.special_tokens.pad_token;
  };
  CHECK(pad("\"[PAD]\"") == "[PAD]");
  CHECK(pad("\"a \\\"b\\\"\"") == "a \"b\"");
  CHECK(pad("\"open") == "\"open");
  CHECK(load_with("", {{"output_dir", "\"null\""}}).config.output.output_dir == "null");
  CHECK(load_with("adapter: lora\nlora_r: 4\nlora_rank_pattern: {q_proj: 2}\n", {{"lora_rank_pattern", "{}"}})
            .config.adapter->rank_pattern.empty());
}

#include "tests/support/rank_jobs.h"

#include <doctest/doctest.h>

#include "base/random.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/decoder/decoder.h"
#include "tests/support/preference_run.h"

namespace spillway::testing {

namespace fs = std::filesystem;

std::vector<nlohmann::json> training_metrics_of(const fs::path& output) {
  std::vector<nlohmann::json> lines;
  const std::string text = read_file(output / "metrics.jsonl", 1 << 24);
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    nlohmann::json line = nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin));
    for (const char* key :
         {"tokens_per_second", "step_seconds", "generation_seconds", "reward_seconds", "generation_tokens_per_second"})
      line.erase(key);
    for (auto entry = line.begin(); entry != line.end();)
      entry = entry.key().starts_with("memory/") ? line.erase(entry) : std::next(entry);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> train_over_ranks(int ranks, const TinyJob& job, const std::string& name, Arguments more,
                                          const std::vector<std::string>& hosts) {
  more = more + Arguments{"--gradient_accumulation_steps",
                          std::to_string(kMicroBatches / ranks),
                          "--max_steps",
                          std::to_string(kSharedSteps),
                          "--val_set_size",
                          "2"};
  return run_over_ranks(ranks, job.train(name, more), hosts);
}

std::map<std::string, std::string> results_of(const fs::path& output) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(output)) {
    const std::string name = fs::relative(entry.path(), output).string();
    if (name.ends_with(".safetensors") || name.ends_with("completions.jsonl") || name.ends_with("samples.jsonl"))
      files[name] = read_file(entry.path(), 1 << 26);
    if (entry.path().filename() != "spillway_state.json") continue;
    nlohmann::json state = nlohmann::json::parse(read_file(entry.path(), 1 << 20));
    state.erase("run");
    state.erase("xxh3");  // of the whole, its name included
    files[name] = state.dump();
  }
  return files;
}

void check_same_results(const fs::path& one, const fs::path& several) {
  CHECK(training_metrics_of(one) == training_metrics_of(several));
  const auto expected = results_of(one), got = results_of(several);
  CHECK(expected.size() == got.size());
  for (const auto& [name, bytes] : expected) {
    CAPTURE(name);
    CHECK(got.contains(name));
    CHECK((got.contains(name) && got.at(name) == bytes));
  }
}

WideModel::WideModel() {
  const std::string config = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 64, "intermediate_size": 256, "max_position_embeddings": 64, "num_attention_heads": 2,
    "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "tie_word_embeddings": false, "vocab_size": 256, "torch_dtype": "float32"})";
  write_file(folder_.path() / "config.json", config);
  const ParameterTable parameters = parameters_of(*make_decoder(parse_decoder_config(config, "test")));
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters)
    if (p.is_of_model()) specs.push_back({p.written_name(), DType::kF32, p.written_shape().dims()});
  SafetensorsWriter writer(folder_.path() / "model.safetensors", specs);
  RandomStream random(3, 3);
  for (const Parameter& p : parameters) {
    if (!p.is_of_model()) continue;
    std::vector<float> values;
    for (int64_t i = 0; i < p.shape.elems(); ++i)
      values.push_back(p.shape.rank() == 1 ? 1 : static_cast<float>(random.below(256)) / 1024 - 0.125f);
    writer.append(p.written_name(), values.data(), DType::kF32, std::ssize(values));
  }
  writer.commit();
}

void check_on_ranks(const TinyJob& job, const Arguments& more, std::initializer_list<int> numbers) {
  CHECK(train_over_ranks(1, job, "one", more).empty());
  for (const int ranks : numbers) {
    CAPTURE(ranks);
    const std::string name = "of_" + std::to_string(ranks);
    for (const std::string& error : train_over_ranks(ranks, job, name, more)) CHECK(error == "");
    check_same_results(job.output("one"), job.output(name));
    const nlohmann::json report = nlohmann::json::parse(read_file(job.output(name) / "report.json", 1 << 24));
    CHECK(report["world_size"] == ranks);
    CHECK(report["ranks"].size() == static_cast<size_t>(ranks));
    CHECK(report["rank_timelines"]["ranks"].size() == static_cast<size_t>(ranks));
  }
}

Arguments of_prompts(const TinyJob& job, const std::string& rl, const nlohmann::json& rewards) {
  std::string prompts;
  for (int i = 0; i < 14; ++i)
    prompts += nlohmann::json{{"prompt", fmt::format("w{} {}", i, i % 3 == 0 ? "w1" : "w2 w3 w4")}}.dump() + "\n";
  write_file(job.output("prompts.jsonl"), prompts);
  const std::string program = "while read -r line; do echo '" + rewards.dump() + "'; done";
  const nlohmann::json functions = {{{"name", "get_repetition_penalty_reward"}, {"ngram_size", 1}},
                                    (preference_goldens() / "reward_model").string(),
                                    {{"exec", {"sh", "-c", program}}}};
  return {"--rl",
          rl,
          "--datasets",
          "[{path: " + job.output("prompts.jsonl").string() + "}]",
          "--trl.max_completion_length",
          "6",
          "--trl.log_completions",
          "true",
          "--trl.reward_funcs",
          functions.dump(),
          "--save_steps",
          "3"};
}

Arguments of_model(const std::string& name) {
  return {"--base_model", (fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models" / name).string()};
}

}  // namespace spillway::testing

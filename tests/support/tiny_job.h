// A job that the real program trains in a second.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "io/file.h"

namespace spillway::testing {

// A tiny job of kSteps steps over tokenised rows, in a folder of its own.
class TinyJob {
 public:
  static constexpr int kSteps = 40;
  static inline const std::vector<std::string> kResume = {"--auto_resume_from_checkpoints", "true"};

  TinyJob() {
    std::string rows;
    RandomStream random(5, 5);
    for (int row = 0; row < 24; ++row) {
      nlohmann::json ids = nlohmann::json::array();
      for (uint32_t i = 0; i < 6 + random.below(10); ++i) ids.push_back(random.below(96));
      rows += nlohmann::json{{"input_ids", ids}, {"labels", ids}, {"attention_mask", std::vector<int>(ids.size(), 1)}}
                  .dump() +
              "\n";
    }
    write_file(folder_.path() / "rows.jsonl", rows);
    nlohmann::json tokenizer = {{"version", "1.0"}, {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}};
    tokenizer["model"] = {{"type", "WordLevel"}, {"unk_token", "w0"}};
    for (int id = 0; id < 96; ++id) tokenizer["model"]["vocab"]["w" + std::to_string(id)] = id;
    write_file(folder_.path() / "tokenizer.json", tokenizer.dump());
  }

  [[nodiscard]] std::string rows() const { return read_file(folder_.path() / "rows.jsonl", 1 << 20); }
  void write_rows(const std::string& rows) const { write_file(folder_.path() / "rows.jsonl", rows); }

  [[nodiscard]] std::filesystem::path output(const std::string& name) const { return folder_.path() / name; }

  // The arguments of a run into `output(name)`; `more` are further overrides.
  [[nodiscard]] std::vector<std::string> train(const std::string& name,
                                               const std::vector<std::string>& more = {}) const {
    const std::filesystem::path config = folder_.path() / (name + ".yml");
    write_file(config,
               "base_model: " + (std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/llama2").string() +
                   "\ntokenizer_config: " + folder_.path().string() +
                   "\ndatasets:\n  - path: " + (folder_.path() / "rows.jsonl").string() +
                   "\n    type:\nsequence_len: 16\nmicro_batch_size: 2\ngradient_accumulation_steps: "
                   "2\nadapter: lora\nlora_r: 4\nlora_alpha: 8\n"
                   "lora_dropout: 0.1\nlora_target_linear: true\nlearning_rate: 0.01\nlr_scheduler: "
                   "cosine\nwarmup_steps: 3\nmax_steps: " +
                   std::to_string(kSteps) + "\nsave_steps: 3\nsave_total_limit: 2\nbf16: true\nseed: 7\noutput_dir: " +
                   output(name).string() + "\n");
    std::vector<std::string> args = {"train", config.string()};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  [[nodiscard]] std::string adapter(const std::string& name) const {
    return read_file(output(name) / "adapter_model.safetensors", 1 << 24);
  }

  // Loss by step; a step that is there twice or not at all fails.
  [[nodiscard]] std::map<int, double> losses(const std::string& name) const {
    std::map<int, double> result;
    std::string text = read_file(output(name) / "metrics.jsonl", 1 << 24);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      const nlohmann::json line = nlohmann::json::parse(text.substr(begin, end - begin));
      if (line.contains("loss")) CHECK(result.emplace(line["step"], line["loss"]).second);
      begin = end + 1;
    }
    return result;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace spillway::testing

// Folders whose weights are float16, as Llama 2 and most of what was made of it, through every command; and configs
// that ask for f16.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/temporary_folder.h"
#include "io/convert.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 24;
const std::string kFile = SPILLWAY_SOURCE_DIR "/tests/golden/import/qwen3.gguf";

class F16Folder {
 public:
  F16Folder() {
    std::string rows;
    for (int i = 0; i < 8; ++i) rows += json{{"text", "hello hello " + std::to_string(i % 4)}}.dump() + "\n";
    write_file(path("rows.jsonl"), rows);
    (void)succeed({"import", kFile, "--out", path("f16"), "--dtype", "f16"});
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  static Finished succeed(const std::vector<std::string>& args) {
    Finished run = run_spillway(args);
    CAPTURE(args[0]);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return run;
  }

  // Two steps from `base` into `out`.
  [[nodiscard]] Finished train(const std::string& base, const std::string& out, json keys = json::object()) const {
    json config = {{"base_model", path(base)},
                   {"datasets", {{{"path", path("rows.jsonl")}, {"type", "completion"}, {"field", "text"}}}},
                   {"sequence_len", 32},
                   {"micro_batch_size", 2},
                   {"max_steps", 2},
                   {"learning_rate", 0.01},
                   {"save_strategy", "no"},
                   {"output_dir", path(out)}};
    config.update(keys);
    write_file(path("config.yml"), config.dump());  // YAML has JSON in it
    return succeed({"train", path("config.yml")});
  }

  // Checks the weights' dtype and the one that config.json names.
  void check_dtype(const std::string& name, DType dtype, const char* said) const {
    CAPTURE(name);
    const SafetensorsFolder files(path(name));
    for (const auto& [tensor, entry] : files.tensors()) CHECK(entry.tensor->dtype() == dtype);
    const json config = json::parse(read_file(path(name + "/config.json"), kMaxFileBytes));
    CHECK(config.value("dtype", config.value("torch_dtype", "")) == said);
  }

 private:
  TemporaryFolder folder_;
};

std::vector<float> values_of(const SafetensorsFolder& folder, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(folder.find(name)->elems()));
  folder.read(name, DType::kF32, values.data());
  return values;
}

}  // namespace

TEST_CASE("a float16 folder trains, and what is trained of it merges, exports, quantises, answers") {
  const F16Folder folder;
  const std::string base = folder.path("f16");
  (void)folder.train("f16", "lora", {{"adapter", "lora"}, {"lora_r", 4}, {"lora_target_linear", true}});
  const std::string adapter = folder.path("lora");
  (void)F16Folder::succeed({"merge", base, "--adapter", adapter, "--out", folder.path("merged")});
  folder.check_dtype("merged", DType::kF16, "float16");
  (void)F16Folder::succeed({"export", base, "--adapter", adapter, "--gguf", folder.path("merged.gguf")});
  (void)F16Folder::succeed({"export", folder.path("merged"), "--gguf", folder.path("same.gguf")});
  (void)F16Folder::succeed({"export", base, "--adapter", adapter, "--lora-gguf", folder.path("lora.gguf")});
  const GgufFile merged(folder.path("merged.gguf"));
  CHECK(merged.find_tensor("blk.0.attn_q.weight")->type == GgufType::kF16);
  (void)F16Folder::succeed({"quantize", base, "--out", folder.path("nf4"), "--type", "nf4"});
  for (const char* model : {"f16", "merged", "nf4", "merged.gguf"}) {
    CAPTURE(model);
    const Finished run = F16Folder::succeed(
        {"generate", folder.path(model), "--prompt", "hello", "--max-new-tokens", "4", "--temperature", "0", "--json"});
    CHECK(json::parse(run.out).is_object());
    CHECK(run.err.find("are rounded to bfloat16") != std::string::npos);
  }
  (void)F16Folder::succeed({"eval", base, "--adapter", adapter, "--config", folder.path("config.yml")});
}

// Both runs compute the same, so that one file is the other's, rounded.
TEST_CASE("a model that is trained whole is written in its base's float16, or as dtype has it") {
  const F16Folder folder;
  (void)folder.train("f16", "same");
  (void)folder.train("f16", "wide", {{"dtype", "float32"}});
  folder.check_dtype("same", DType::kF16, "float16");
  folder.check_dtype("wide", DType::kF32, "float32");
  const SafetensorsFolder same(folder.path("same")), wide(folder.path("wide"));
  for (const auto& [name, entry] : wide.tensors()) {
    CAPTURE(name);
    std::vector<float> values = values_of(wide, name);
    round_to(DType::kF16, values);
    CHECK(values_of(same, name) == values);
  }
  (void)F16Folder::succeed({"export", folder.path("same"), "--gguf", folder.path("same.gguf")});
}

TEST_CASE("fp16: true trains in bf16, says so in one line, and writes float16") {
  const F16Folder folder;
  (void)F16Folder::succeed({"import", kFile, "--out", folder.path("bf16")});
  const Finished run = folder.train("bf16", "out", {{"fp16", true}, {"bf16", false}});
  const std::string line = "fp16: f16 arithmetic is not computed; bf16 is, and the model is written in f16\n";
  CHECK((run.out + run.err).find(line) != std::string::npos);
  folder.check_dtype("out", DType::kF16, "float16");
}

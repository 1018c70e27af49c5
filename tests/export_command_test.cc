// `spillway export` as a user runs it, and GGUF files where models are named.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/cache_folder.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int64_t kMaxExportBytes = int64_t{1} << 24;
const fs::path kGolden = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/export";

json generated(const std::string& model) {
  const Finished run = run_spillway({"generate", model, "--prompt", "hello", "--temperature", "0", "--max-new-tokens",
                                     "8", "--device", "cpu", "--json"});
  REQUIRE(run.status == 0);
  return json::parse(run.out);
}

}  // namespace

TEST_CASE("export says what it wrote, and a Modelfile names the file and where generation ends") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "x.gguf").string(), modelfile = (folder.path() / "Modelfile").string();
  const Finished run = run_spillway(
      {"export", (kGolden / "qwen3").string(), "--gguf", file, "--type", "q8_0", "--modelfile", modelfile, "--json"});
  REQUIRE(run.status == 0);
  const json report = json::parse(run.out);
  CHECK(report["file"] == file);
  CHECK(report["architecture"] == "qwen3");
  CHECK(report["type"] == "q8_0");
  CHECK(report["tensors"] == 24);
  CHECK(report["bytes"] == fs::file_size(file));
  CHECK(read_file(modelfile, kMaxExportBytes) == "FROM " + file + "\nPARAMETER stop \"<|end|>\"\n");
}

TEST_CASE("export refuses what is wrong with exit status 2 and writes nothing") {
  const TemporaryFolder folder;
  const std::string model = (kGolden / "qwen3").string(), file = (folder.path() / "x.gguf").string();
  write_file(folder.path() / "mine.gguf", "mine");
  const std::string mine = (folder.path() / "mine.gguf").string();
  const auto refused = [&](const std::vector<std::string>& args, const std::string& message) {
    INFO(message);
    const Finished run = run_spillway(args);
    CHECK(run.status == 2);
    CHECK(run.err.find(message) != std::string::npos);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  };
  refused({"export", model, "--gguf", mine}, "[--gguf] expected a file that is not there yet");
  refused({"export", model, "--gguf", file, "--type", "q8_o"}, "did you mean q8_0?");
  refused({"export", model, "--gguf", file, "--modelfile", mine},
          "[--modelfile] expected a file that is not there yet");
  refused({"export", model, "--lora-gguf", file}, "[--lora-gguf] expected --adapter beside it");
  refused({"export", model, "--adapter", (kGolden / "llama.lora").string(), "--gguf", file}, "llama.lora");
  refused({"export", model, "--gguf", (folder.path() / "no/x.gguf").string()}, "in a folder that exists");
  CHECK(read_file(mine, kMaxExportBytes) == "mine");
}

TEST_CASE("a GGUF file where a model is named answers as the folder that it came from") {
  const CacheFolder cache;
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "x.gguf").string();
  REQUIRE(run_spillway({"export", (kGolden / "qwen2").string(), "--gguf", file, "--type", "bf16"}).status == 0);
  CHECK(generated(file) == generated((kGolden / "qwen2").string()));
}

TEST_CASE("a config trains on a GGUF file, and its tokenizer is the file's") {
  const CacheFolder cache;
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "x.gguf").string();
  REQUIRE(run_spillway({"export", (kGolden / "llama").string(), "--gguf", file, "--type", "f32"}).status == 0);
  write_file(folder.path() / "train.jsonl", "{\"text\": \"hello hello\"}\n{\"text\": \"hello there\"}\n");
  write_file(folder.path() / "c.yml",
             json{{"base_model", file},
                  {"datasets", {{{"path", (folder.path() / "train.jsonl").string()}, {"type", "completion"}}}},
                  {"sequence_len", 16},
                  {"max_steps", 2},
                  {"learning_rate", 1e-3},
                  {"adapter", "lora"},
                  {"lora_r", 2},
                  {"lora_alpha", 4},
                  {"lora_target_linear", true},
                  {"output_dir", (folder.path() / "out").string()}}
                 .dump());
  const Finished run = run_spillway({"train", (folder.path() / "c.yml").string()});
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(fs::exists(folder.path() / "out/adapter_model.safetensors"));
  const std::string merged = (folder.path() / "merged.gguf").string();
  CHECK(run_spillway({"export", file, "--adapter", (folder.path() / "out").string(), "--gguf", merged}).status == 0);
}

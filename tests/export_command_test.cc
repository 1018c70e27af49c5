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
  constexpr const char* kNoTemplate =
      "# No TEMPLATE: the chat template does more than put texts around turns. Ollama has one only if it knows the "
      "template in the GGUF file.\n"
      "# Write one (https://docs.ollama.com/template), or talk to the model with: spillway chat\n";
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
  CHECK(read_file(modelfile, kMaxExportBytes) == "FROM " + file + "\n" + kNoTemplate + "PARAMETER stop \"<|end|>\"\n");
  CHECK(run.err.find("no TEMPLATE in the Modelfile") != std::string::npos);
}

TEST_CASE(
    "a folder whose head differs from the embedding that its config ties it to is refused by what rewrites models") {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model";
  fs::copy(kGolden / "llama", model);
  json config = json::parse(read_file(model / "config.json", kMaxExportBytes));
  config["tie_word_embeddings"] = true;
  write_file(model / "config.json", config.dump());
  const std::string out = (folder.path() / "out").string();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"export", model.string(), "--gguf", out + ".gguf"},
        {"merge", model.string(), "--adapter", (kGolden / "llama.lora").string(), "--out", out},
        {"quantize", model.string(), "--out", out}}) {
    CAPTURE(command[0]);
    const Finished run = run_spillway(command);
    CHECK(run.status == 2);
    CHECK(run.err.find("expected lm_head.weight to equal model.embed_tokens.weight, since config.json ties them, got "
                       "different values; set tie_word_embeddings to false") != std::string::npos);
    CHECK_FALSE(fs::exists(out));
    CHECK_FALSE(fs::exists(out + ".gguf"));
  }
}

TEST_CASE("of a base model without a chat template the Modelfile says that it continues texts, and what to do") {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model", mine = folder.path() / "mine";
  fs::copy(kGolden / "qwen3", model);
  json settings = json::parse(read_file(model / "tokenizer_config.json", kMaxExportBytes));
  settings.erase("chat_template");
  write_file(model / "tokenizer_config.json", settings.dump());
  const Finished run = run_spillway({"export", model.string(), "--ollama", mine.string()});
  CHECK(run.status == 0);
  const std::string why = "the model has no chat template, it continues texts";
  CHECK(run.err.find("no TEMPLATE in the Modelfile: " + why) != std::string::npos);
  CHECK(read_file(mine / "Modelfile", kMaxExportBytes) ==
        "FROM ./mine.gguf\n# No TEMPLATE: " + why +
            ". Ollama has one only if it knows the template in the GGUF file.\n"
            "# Write one (https://docs.ollama.com/template), or talk to the model with: spillway chat\n"
            "PARAMETER stop \"<|end|>\"\n");
}

TEST_CASE("export leaves a folder for ollama create, whose Modelfile has template, ends and sampling") {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model", mine = folder.path() / "mine";
  fs::copy(kGolden / "qwen3", model);
  write_file(model / "chat_template.jinja",
             "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
             "{% if add_generation_prompt %}<assistant>{% endif %}");
  write_file(model / "generation_config.json",
             R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1, "eos_token_id": 261})");
  const Finished run = run_spillway({"export", model.string(), "--ollama", mine.string(), "--type", "q8_0"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(run.out.find("then: ollama create mine -f " + (mine / "Modelfile").string() + "\n") != std::string::npos);
  CHECK(fs::exists(mine / "mine.gguf"));
  const std::string written = read_file(mine / "Modelfile", kMaxExportBytes);
  CHECK(written.starts_with("FROM ./mine.gguf\nTEMPLATE \"\"\"{{ if .System }}<system>{{ $.System }}<|end|>{{ end }}"));
  CHECK(
      written.ends_with("PARAMETER stop \"<|end|>\"\nPARAMETER temperature 0.6\nPARAMETER top_k 20\n"
                        "PARAMETER repeat_penalty 1.1\n"));
  // Its own folder is replaced, another is not.
  CHECK(run_spillway({"export", model.string(), "--ollama", mine.string()}).status == 0);
  const Finished taken = run_spillway({"export", model.string(), "--ollama", model.string()});
  CHECK(taken.status == 2);
  CHECK(taken.err.find("expected --ollama to name a new or empty folder") != std::string::npos);
  CHECK(fs::exists(model / "model.safetensors"));
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

TEST_CASE("the adapter of a video model becomes a file where it fits the model") {
  const fs::path videos = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/video";
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "a.safetensors").string();
  const auto exported = [&](const fs::path& model) {
    return run_spillway(
        {"export", model.string(), "--adapter", (videos / "i2v/lora").string(), "--format", "comfyui", "--out", file});
  };
  const Finished other = exported(kGolden / "qwen3"), wider = exported(videos / "odd");
  CHECK(other.status == 2);
  CHECK(other.err.find("[MODEL] expected a video transformer beside --format") != std::string::npos);
  CHECK(wider.status == 2);
  CHECK_FALSE(fs::exists(file));
  CHECK(exported(videos / "i2v").status == 0);
  CHECK(fs::exists(file));
}

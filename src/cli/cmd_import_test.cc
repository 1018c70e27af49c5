#include "cli/cmd_import.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "tests/support/captured.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

const std::string kFile = SPILLWAY_SOURCE_DIR "/tests/golden/import/qwen3.gguf";

Captured run_import(std::vector<std::string> args) {
  return capture([&] { return cmd_import(args); });
}

}  // namespace

TEST_CASE("import writes a folder and says what is in it") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "model").string();
  const Captured result = run_import({kFile, "--out=" + out, "--json"});
  CHECK(result.status == 0);
  const auto document = nlohmann::json::parse(result.out);
  CHECK(document["architecture"] == "qwen3");
  CHECK(document["tensors"] == 24);
  CHECK(document["bytes"] == 2 * document["parameters"].get<int64_t>());
  for (const char* name :
       {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    CHECK(fs::exists(folder.path() / "model" / name));
  }
  const Captured text = run_import({"--dtype", "f32", "--out", out + "2", kFile});
  CHECK(text.out.find("qwen3 model") != std::string::npos);
  CHECK(run_import({"--dtype", "f16", "--out", out + "3", kFile}).out.find(" in f16\n") != std::string::npos);
  CHECK(SafetensorsFolder(out + "3").find("model.norm.weight")->dtype() == DType::kF16);
  CHECK(nlohmann::json::parse(read_file(out + "3/config.json", 1 << 20))["torch_dtype"] == "float16");
}

TEST_CASE("import refuses arguments that it does not understand") {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {kFile},
                                                       {kFile, "--out"},
                                                       {kFile, "--out", "x", "--nonsense"},
                                                       {kFile, "--out", "x", "--dtype", "q4"},
                                                       {"/none.gguf", "--out", "x"}};
  for (const auto& args : wrong) {
    CHECK_THROWS_AS((void)cmd_import(args), InputError);
  }
  CHECK(run_import({"--help"}).out.find("--out") != std::string::npos);
}

#include "cli/cmd_quantize.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/support/captured.h"

using namespace spillway;

namespace {

const std::string kModel = SPILLWAY_SOURCE_DIR "/tests/golden/quantised/dense";

Captured run_quantize(std::vector<std::string> args) {
  return capture([&] { return cmd_quantize(args); });
}

}  // namespace

TEST_CASE("quantize writes a folder and says what became of its weights") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "model").string();
  const Captured result = run_quantize({kModel, "--out", out, "--json"});
  CHECK(result.status == 0);
  const auto document = nlohmann::json::parse(result.out);
  CHECK(document["type"] == "nf4");
  CHECK(document["quantised"] == 7);
  CHECK(document["bytes"] < document["bytes_before"]);
  for (const char* name : {"config.json", "model.safetensors"})
    CHECK(std::filesystem::exists(folder.path() / "model" / name));
  // It may write its own folder again.
  const Captured text =
      run_quantize({kModel, "--out", out, "--type", "fp4", "--double-quant", "false", "--dtype", "float32"});
  CHECK(text.out.find("7 weights in fp4") != std::string::npos);
  CHECK(run_quantize({kModel, "--out", out, "--type", "int8"}).status == 0);
}

TEST_CASE("quantize refuses arguments that it does not understand") {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {kModel},
      {kModel, "--out", "x", "--type", "nf5"},
      {kModel, "--out", "x", "--dtype", "f16"},
      {kModel, "--out", "x", "--double-quant", "perhaps"},
      {kModel, "--out", "x", "--type", "int8", "--double-quant", "true"},
      {kModel, "--out", kModel},
      {SPILLWAY_SOURCE_DIR "/tests/golden/video/t2v", "--out", "x"},
      {"/none", "--out", "x"}};
  for (const auto& args : wrong) CHECK_THROWS_AS((void)cmd_quantize(args), InputError);
  CHECK(run_quantize({"--help"}).out.find("--double-quant") != std::string::npos);
}

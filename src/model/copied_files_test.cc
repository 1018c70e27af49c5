#include "model/copied_files.h"

#include <doctest/doctest.h>

#include <string>

#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;
namespace fs = std::filesystem;

namespace {

std::string names_of(const std::vector<fs::path>& files) {
  std::string names;
  for (const fs::path& file : files) names += file.filename().string() + " ";
  return names;
}

bool all(std::string_view) { return true; }

}  // namespace

TEST_CASE("a model's other files are neither weights in any format nor what a run or a command has left there") {
  const TemporaryFolder folder;
  for (const char* name : {"tokenizer.json",
                           "config.json",
                           "notes.txt",
                           "model.safetensors",
                           "model.safetensors.index.json",
                           "weights.npz",
                           "model.onnx",
                           "model.onnx_data",
                           "model.onnx.data",
                           "consolidated.00.pth",
                           "README.md",
                           ".spillway.json",
                           "completions.jsonl",
                           "metrics.jsonl",
                           "samples.jsonl",
                           "plan.json",
                           "report.html",
                           "report.json",
                           "spillway_run.json",
                           "spillway_state.json",
                           "training_args.bin",
                           "trainer_state.json"})
    write_file(folder.path() / name, "x");
  fs::create_directories(folder.path() / "runs/today");
  CHECK(names_of(files_to_copy(folder.path(), all)) == "config.json notes.txt tokenizer.json ");
  CHECK(names_of(files_to_copy(folder.path(), is_of_tokenizer)) == "tokenizer.json ");

  fs::create_directories(folder.path() / "additional_chat_templates");
  write_file(folder.path() / "additional_chat_templates/tool_use.jinja", "T");
  const std::vector<fs::path> files = files_to_copy(folder.path(), is_of_tokenizer);
  CHECK(names_of(files) == "tool_use.jinja tokenizer.json ");
  copy_files(files, folder.path() / "runs");
  CHECK(read_file(folder.path() / "runs/additional_chat_templates/tool_use.jinja", 1) == "T");
}

TEST_CASE("files are copied whole, in pieces") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += std::to_string(i);  // more than two pieces
  const fs::path to = folder.path() / "to";
  fs::create_directory(to);
  write_file(folder.path() / "large.txt", text);
  write_file(folder.path() / "empty.txt", "");
  copy_files(files_to_copy(folder.path(), all), to);
  CHECK((read_file(to / "large.txt", 1 << 24) == text));
  CHECK(read_file(to / "empty.txt", 1).empty());
}

// The real program where what it stands on is missing: closed standard streams, names that are no UTF-8, circles of
// symbolic links, a model that is removed while it is trained.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxReadBytes = int64_t{1} << 24;

// A folder with a tiny model, rows of text, and a config of three steps, which writes to out/.
class SmallJob {
 public:
  SmallJob() {
    const fs::path file = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/import/llama.gguf";
    REQUIRE(run_spillway({"import", file.string(), "--out", path("model"), "--dtype", "f32"}).status == 0);
    write_file(path("rows.txt"), "hello hello\nhello there\n");
    write_file(path("config.yml"), json{{"base_model", path("model")},
                                        {"datasets", {{{"path", path("rows.txt")}, {"type", "completion"}}}},
                                        {"sequence_len", 16},
                                        {"max_steps", 3},
                                        {"learning_rate", 1e-3},
                                        {"adapter", "lora"},
                                        {"lora_r", 2},
                                        {"lora_alpha", 4},
                                        {"lora_target_linear", true},
                                        {"output_dir", path("out")}}
                                       .dump());
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // Trains with streams as the shell sets them; gives back the exit status.
  [[nodiscard]] int train(const std::string& streams) const {
    const std::string command =
        "exec '" SPILLWAY_BINARY "' train '" + path("config.yml") + "' < /dev/null > /dev/null 2> /dev/null " + streams;
    return WEXITSTATUS(std::system(command.c_str()));
  }
  [[nodiscard]] std::string weights() const { return read_file(path("out/adapter_model.safetensors"), kMaxReadBytes); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("a run needs no standard streams, and writes no message into a file in their place") {
  const SmallJob job;
  REQUIRE(job.train("") == 0);
  const std::string usual = job.weights();
  for (const char* streams : {"2>&-", "0<&- 1>&- 2>&-", "2> /dev/full"}) {
    CAPTURE(streams);
    fs::remove_all(job.path("out"));
    CHECK(job.train(streams) == 0);
    CHECK(job.weights() == usual);
    const std::string metrics = read_file(job.path("out/metrics.jsonl"), kMaxReadBytes);
    CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 3);
    CHECK(metrics.starts_with("{\"step\": 1"));
  }
}

TEST_CASE("a base whose path is no UTF-8 is trained as any other") {
  const SmallJob job;
  fs::rename(job.path("model"), job.path("caf\xe9"));
  const Finished run = run_spillway({"train", job.path("config.yml"), "--base_model", job.path("caf\xe9")});
  CAPTURE(run.err);
  CHECK(run.status == 0);
  const json config = json::parse(read_file(job.path("out/adapter_config.json"), kMaxReadBytes));
  CHECK(config["base_model_name_or_path"].get<std::string>().ends_with("/caf\xef\xbf\xbd"));
}

TEST_CASE("a circle of symbolic links is refused as a path of the user's") {
  const SmallJob job;
  fs::create_symlink("circle", job.path("circle"));
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"--output_dir", job.path("circle")},
        {"--memory.disk_paths", job.path("circle"), "--optimizer_offload", "disk"}}) {
    std::vector<std::string> args = {"train", job.path("config.yml")};
    args.insert(args.end(), keys.begin(), keys.end());
    const Finished run = run_spillway(args);
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(run.err.find("/circle] expected a file, got a circle of symbolic links; check the path") !=
          std::string::npos);
  }
}

TEST_CASE("a run whose base model is removed meanwhile saves all that it would have saved") {
  for (const char* adapter : {"lora", "none"}) {
    CAPTURE(adapter);
    const SmallJob job;
    std::map<std::string, std::string> beside;
    for (const bool is_removed : {false, true}) {
      const fs::path output = job.path(is_removed ? "removed" : "there");
      Process process({"train", job.path("config.yml"), "--adapter", adapter, "--output_dir", output.string(),
                       "--max_steps", "1000000", "--save_strategy", "no"});
      const fs::path metrics = output / "metrics.jsonl";
      while (!fs::exists(metrics) || fs::file_size(metrics) == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (is_removed) fs::remove_all(job.path("model"));
      process.signal(SIGINT);
      const Finished ended = process.wait();
      CAPTURE(ended.err);
      CHECK(ended.status == 130);
      std::map<std::string, std::string> files;
      for (const fs::directory_entry& folder : fs::directory_iterator(output)) {
        if (!folder.path().filename().string().starts_with("checkpoint-")) continue;
        for (const fs::directory_entry& file : fs::directory_iterator(folder.path())) {
          const std::string name = file.path().filename().string();
          // Weights and positions are of whatever step the signal met.
          const bool is_of_step = name.starts_with("spillway") || name.starts_with(".") || name == "README.md" ||
                                  name.ends_with(".safetensors");
          files[name] = is_of_step ? "" : read_file(file.path(), kMaxReadBytes);
        }
      }
      if (!is_removed) beside = files;
      CHECK(files.contains("tokenizer.json"));
      CHECK(files == beside);
    }
  }
}

TEST_CASE("plan needs no temporary folder for a config, and says where it cannot make one for a known model") {
  const SmallJob job;
  const auto plan = [&](const std::string& args) {
    const std::string command = "TMPDIR='" + job.path("nothing") + "' exec '" SPILLWAY_BINARY "' plan " + args +
                                " > /dev/null 2> '" + job.path("err") + "'";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  CHECK(plan("'" + job.path("config.yml") + "'") == 0);
  CHECK(plan("--model gemma-3-270m --machine rtx4090") == 3);
  const std::string err = read_file(job.path("err"), kMaxReadBytes);
  CAPTURE(err);
  CHECK(err.starts_with("[TMPDIR] expected to make a temporary folder in "));
  CHECK(err.find("; set TMPDIR to a folder that can be written, or make room\n") != std::string::npos);
}

TEST_CASE("a run goes on where its metrics cannot be written, and ends with 3") {
  const SmallJob job;
  // A limit for the size of files, 512 KiB, stands in for a full disk: 1,500 lines are longer, and there is a
  // checkpoint behind it.
  const std::string command = "trap '' XFSZ; ulimit -f 1024; exec '" SPILLWAY_BINARY "' train '" +
                              job.path("config.yml") +
                              "' --max_steps 1500 --save_strategy steps --save_steps 1400 2> '" + job.path("err") + "'";
  CHECK(WEXITSTATUS(std::system(command.c_str())) == 3);
  const std::string err = read_file(job.path("err"), kMaxReadBytes);
  CAPTURE(err);
  CHECK(err.ends_with("; the adapter is whole, that file is not\n"));
  const std::string_view warning = "the run goes on and writes nothing more there";
  CHECK(err.find(warning) != std::string::npos);
  CHECK(err.find(warning) == err.rfind(warning));
  CHECK_FALSE(job.weights().empty());
}

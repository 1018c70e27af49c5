// Where the real program writes: never over what is a user's, and never over or above what it reads. What it says of
// names and texts from files, too.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/folder_record.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxOutputBytes = int64_t{1} << 24;

// A folder with a tiny model, an adapter for it, rows of text, and a config of two steps, which writes to out/.
class OutputPlace {
 public:
  OutputPlace() {
    const fs::path file = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/import/llama.gguf";
    REQUIRE(run_spillway({"import", file.string(), "--out", path("model"), "--dtype", "f32"}).status == 0);
    fs::create_directory(path("data"));
    write_file(path("data/train.jsonl"), "{\"text\": \"hello hello\"}\n{\"text\": \"hello there\"}\n");
    write_file(path("config.yml"), json{{"base_model", path("model")},
                                        {"datasets", {{{"path", path("data/train.jsonl")}, {"type", "completion"}}}},
                                        {"sequence_len", 16},
                                        {"max_steps", 2},
                                        {"learning_rate", 1e-3},
                                        {"adapter", "lora"},
                                        {"lora_r", 2},
                                        {"lora_alpha", 4},
                                        {"lora_target_linear", true},
                                        {"output_dir", path("out")}}
                                       .dump());
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] Finished run(const char* command, const std::vector<std::string>& keys = {}) const {
    std::vector<std::string> args = {command, path("config.yml")};
    args.insert(args.end(), keys.begin(), keys.end());
    return run_spillway(args);
  }
  // Every file with its content.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> result;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const bool is_file = fs::is_regular_file(entry.symlink_status());
      result[entry.path().string()] = is_file ? read_file(entry.path(), kMaxOutputBytes) : "";
    }
    return result;
  }
  // Refused with `what`, and nothing is written, changed or gone.
  void check_refused(const std::vector<std::string>& args, const char* what) const {
    const auto before = files();
    const Finished run = run_spillway(args);
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(run.err.find(what) != std::string::npos);
    CHECK(files() == before);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("merge and import replace what they wrote, and nothing else") {
  const OutputPlace place;
  REQUIRE(place.run("train").status == 0);
  const auto merge = [&](const std::string& out) {
    return std::vector<std::string>{"merge", place.path("model"), "--adapter", place.path("out"), "--out", out};
  };
  place.check_refused(merge(place.path("")), "holds MODEL");
  place.check_refused(merge(place.path("model")), "is MODEL");
  place.check_refused(merge(place.path("out/.")), "is --adapter");
  place.check_refused(merge(place.path("data")), "got one with 'train.jsonl'");
  fs::create_directory_symlink(place.path("data"), place.path("link"));
  place.check_refused(merge(place.path("link")), "got one with 'train.jsonl'");
  fs::create_directory_symlink(place.path("nothing"), place.path("dangling"));
  place.check_refused(merge(place.path("dangling")), "a link to nothing");
  const std::string merged = place.path("merged");
  REQUIRE(run_spillway(merge(merged)).status == 0);
  const auto once = place.files();
  REQUIRE(run_spillway(merge(merged)).status == 0);
  CHECK(place.files() == once);
  const std::string gguf = (fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/import/llama.gguf").string();
  place.check_refused({"import", gguf, "--out", merged}, "or one that `spillway import` wrote");
  write_file(fs::path(merged) / "notes", "mine");
  place.check_refused(merge(merged), "got one with 'notes'");
  fs::remove(fs::path(merged) / "notes");
  write_file(fs::path(merged) / "config.json", "{}");
  place.check_refused(merge(merged), "'config.json' was changed");
  REQUIRE(run_spillway({"import", gguf, "--out", place.path("model")}).status == 0);
}

TEST_CASE("what a merge that was killed has left goes with the next one") {
  const OutputPlace place;
  REQUIRE(place.run("train").status == 0);
  // As merge leaves it: its lock is nobody's any more.
  fs::create_directory(place.path("merged.tmp-0123456789abcdef"));
  write_file(place.path("merged.tmp-0123456789abcdef/.spillway.json"), "");
  write_file(place.path("merged.tmp-0123456789abcdef/model.safetensors"), "half");
  write_file(place.path(".merged.lock-0123456789abcdef"), "");
  REQUIRE(run_spillway({"merge", place.path("model"), "--adapter", place.path("out"), "--out", place.path("merged")})
              .status == 0);
  CHECK(!fs::exists(place.path("merged.tmp-0123456789abcdef")));
  CHECK(!fs::exists(place.path(".merged.lock-0123456789abcdef")));
}

TEST_CASE("preprocess overwrites no data, whoever's and under whatever name") {
  const OutputPlace place;
  const auto out = [&](const std::string& name) {
    return std::vector<std::string>{"preprocess", place.path("config.yml"), "--out", place.path(name)};
  };
  place.check_refused(out("data"), "holds datasets");
  fs::create_directory(place.path("other"));
  fs::create_hard_link(place.path("data/train.jsonl"), place.path("other/train.jsonl"));
  place.check_refused(out("other"), "got one with 'train.jsonl'");
  fs::create_directory(place.path("more"));
  write_file(place.path("more/eval.jsonl"), "mine");
  place.check_refused(out("more"), "got one with 'eval.jsonl'");
  place.check_refused(out("model"), "is base_model");
  REQUIRE(run_spillway(out("rows")).status == 0);
  const auto once = place.files();
  CHECK(once.contains(place.path("rows/train.jsonl")));
  REQUIRE(run_spillway(out("rows")).status == 0);
  CHECK(place.files() == once);
  write_file(place.path("rows/eval.jsonl"), "mine");
  place.check_refused(out("rows"), "got one with 'eval.jsonl'");
}

TEST_CASE("a run writes to a folder of its own, whatever else comes into that later") {
  const OutputPlace place;
  const auto into = [&](const std::string& name) {
    return std::vector<std::string>{"train", place.path("config.yml"), "--output_dir", place.path(name)};
  };
  place.check_refused(into("data"), "holds datasets");
  place.check_refused(into("model"), "is base_model");
  place.check_refused(into(""), "holds base_model");
  fs::create_directory(place.path("mine"));
  write_file(place.path("mine/README.md"), "mine");
  place.check_refused(into("mine"), "got one with 'README.md'");
  REQUIRE(place.run("preprocess").status == 0);  // to out/preprocessed
  REQUIRE(place.run("train", {"--dataset_prepared_path", place.path("out/prepared")}).status == 0);

  std::set<std::string> recorded = {kRecordName}, there;
  const auto record = read_record(place.path("out"));
  REQUIRE(record);
  CHECK(record->is_complete);
  for (const RecordedFile& file : record->files) recorded.insert(file.name);
  for (const auto& entry : fs::directory_iterator(place.path("out"))) {
    if (entry.is_regular_file()) there.insert(entry.path().filename());
  }
  CHECK(there == recorded);

  write_file(place.path("out/notes"), "mine");
  REQUIRE(place.run("train").status == 0);
  CHECK(read_file(place.path("out/notes"), 10) == "mine");
  write_file(place.path("out/model-00001-of-00002.safetensors"), "mine");
  place.check_refused(into("out"), "got one with 'model-00001-of-00002.safetensors'");
  fs::remove(place.path("out/model-00001-of-00002.safetensors"));
  write_file(place.path("out/README.md"), "mine");
  REQUIRE(place.run("train").status == 0);
  CHECK(read_file(place.path("out/README.md"), 10) == "mine");
  write_file(place.path("out/tokenizer.json"), "mine");
  place.check_refused(into("out"), "'tokenizer.json' was changed");
}

TEST_CASE("what a run that failed has left is recorded as it is, and the next run goes on from there") {
  const OutputPlace place;
  const std::vector<std::string> fails = {"--learning_rate", "1000",     "--weight_decay",  "100", "--max_steps", "40",
                                          "--lr_scheduler",  "constant", "--save_strategy", "no"};
  const Finished failed = place.run("train", fails);
  CAPTURE(failed.err);
  REQUIRE(failed.status == 2);
  CHECK(failed.err.find("expected a loss and gradients that are finite") != std::string::npos);
  const auto record = read_record(place.path("out"));
  REQUIRE(record);
  CHECK_FALSE(record->is_complete);
  std::set<std::string> names;
  for (const RecordedFile& file : record->files) {
    CAPTURE(file.name);
    CHECK_FALSE(file.is_open());
    names.insert(file.name);
  }
  CHECK(names.contains("metrics.jsonl"));
  CHECK(names.contains("plan.json"));
  CHECK(place.run("train", fails).status == 2);
  const std::string plan = read_file(place.path("out/plan.json"), kMaxOutputBytes);
  write_file(place.path("out/plan.json"), "mine");
  place.check_refused({"train", place.path("config.yml")}, "'plan.json' was changed");
  write_file(place.path("out/plan.json"), plan);
  CHECK(place.run("train").status == 0);
}

TEST_CASE("plan writes no page over what it reads") {
  const OutputPlace place;
  place.check_refused({"plan", place.path("config.yml"), "--html", place.path("config.yml")}, "is CONFIG.yml");
  place.check_refused({"plan", place.path("config.yml"), "--html", place.path("model/config.json")},
                      "part of base_model");
}

TEST_CASE("a folder that takes nothing is named with its key") {
  const OutputPlace place;
  place.check_refused({"train", place.path("config.yml"), "--output_dir", "/proc/out"}, "[output_dir: /proc/out] ");
  place.check_refused({"train", place.path("config.yml"), "--output_dir", place.path("config.yml/out")},
                      "[output_dir: ");
  place.check_refused({"train", place.path("config.yml"), "--output_dir", place.path("config.yml")}, "[output_dir: ");
  place.check_refused(
      {"train", place.path("config.yml"), "--memory.disk_paths", "/proc/x", "--optimizer_offload", "disk"},
      "[memory.disk_paths] expected folders on disks, got /proc/x");
  place.check_refused({"train", place.path("config.yml"), "--memory.disk_paths", place.path("config.yml/x"),
                       "--optimizer_offload", "disk"},
                      "[memory.disk_paths");
}

TEST_CASE("names and texts from files reach standard error on one line, and no terminal obeys them") {
  const OutputPlace place;
  const std::string odd = place.path(
      "\x1b[2Ja\nb\xc2\x9b"
      "2J");
  const auto is_plain = [](const std::string& text) {
    return text.find_first_of("\x1b\r\x07") == std::string::npos && text.find("\xc2\x9b") == std::string::npos;
  };
  const Finished missing = run_spillway({"tokenize", odd, "--text", "a"});
  CHECK(missing.status == 2);
  CHECK(is_plain(missing.err));
  CHECK(missing.err.find("\\x1b[2Ja\\nb\\u009b2J") != std::string::npos);
  CHECK(missing.err.find('\n') == missing.err.size() - 1);

  fs::rename(place.path("model"), odd);
  const Finished trained = place.run("train", {"--base_model", odd, "--output_dir", place.path("out\x1b]0;x\x07\n")});
  CAPTURE(trained.err);
  CHECK(trained.status == 0);
  CHECK(is_plain(trained.err));
  const Finished planned = place.run("plan", {"--base_model", odd});
  CHECK(planned.status == 0);
  CHECK(is_plain(planned.out + planned.err));

  write_file(fs::path(odd) / "chat_template.jinja", "{{ raise_exception('\x1b[31mno\nsystem role') }}");
  write_file(place.path("chat.json"), R"([{"role": "user", "content": "hi"}])");
  const Finished refused = run_spillway({"tokenize", odd, "--messages", place.path("chat.json")});
  CHECK(refused.status == 2);
  CHECK(is_plain(refused.err));
  CHECK(refused.err.find("got '\\x1b[31mno\\nsystem role'; ") != std::string::npos);
  CHECK(refused.err.find('\n') == refused.err.size() - 1);
}

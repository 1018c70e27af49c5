// `spillway fetch`, `spillway push`, and names of the hub where folders are named, as a user runs them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "hub/testing/fake_hub.h"
#include "io/file.h"
#include "tests/support/chat_model.h"
#include "tests/support/environment.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;
using Args = std::vector<std::string>;

namespace {

const Args kFew = {"--prompt", "abc", "--max-new-tokens", "4", "--temperature", "0", "--json"};

// A hub that has the model org/chat, an adapter for it and rows; and an empty cache.
class FetchRoom : public WorkingFolder {
 public:
  FetchRoom() {
    fs::create_directories("model");
    write_chat_model("model");
    add("models/org/chat", "model");
    std::string rows;
    for (int i = 0; i < 8; ++i)
      rows += R"({"text": "some text to train on"})"
              "\n";
    hub.repositories["datasets/org/rows"].files = {{"data/train-0.jsonl", {rows, true}}, {"README.md", {"# rows"}}};
    write("c.yml",
          "base_model: org/chat\ndatasets: [{path: org/rows, type: completion}]\nsequence_len: 32\n"
          "micro_batch_size: 2\nmax_steps: 2\nlearning_rate: 1e-3\nadapter: lora\nlora_r: 4\nlora_alpha: 8\n"
          "lora_target_linear: true\noutput_dir: out\n");
  }

  // The folder's files as a repository, weights in LFS.
  void add(const std::string& name, const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string file = entry.path().filename().string();
      if (entry.is_regular_file() && !file.starts_with("."))
        hub.repositories[name].files[file] = {read_file(entry.path(), 1 << 24), file.ends_with(".safetensors")};
    }
  }
  [[nodiscard]] fs::path snapshot(const std::string& name = "models--org--chat") const {
    return fs::current_path() / "hf/hub" / name / "snapshots" / hub.repositories.at("models/org/chat").commit;
  }

  FakeHub hub;
  Environment environment{{{"HF_HOME", (fs::current_path() / "hf").string()},
                           {"HF_ENDPOINT", hub.endpoint()},
                           {"HF_TOKEN", "hf_secret"},
                           {"HF_HUB_CACHE", {}},
                           {"HUGGINGFACE_HUB_CACHE", {}},
                           {"HF_HUB_OFFLINE", {}},
                           {"TRANSFORMERS_OFFLINE", {}}}};
};

Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string text_of(const Finished& run) {
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  return json::parse(run.out)["text"];
}

// An output folder as a run leaves it, and a hub.
class PushCommandRoom : public WorkingFolder {
 public:
  PushCommandRoom() {
    for (const char* folder : {"out/checkpoint-4", "out/runs/a", "out/.git"}) fs::create_directories(folder);
    for (const char* name :
         {"adapter_config.json", "adapter_model.safetensors", "README.md", "metrics.jsonl", "report.html",
          "checkpoint-4/adapter_model.safetensors", "runs/a/events", ".git/config", ".spillway.json"})
      write(fs::path("out") / name, name);
  }

  FakeHub hub;
  Environment environment{{{"HF_HOME", (fs::current_path() / "hf").string()},
                           {"HF_ENDPOINT", hub.endpoint()},
                           {"HF_TOKEN", "hf_secret"},
                           {"HF_HUB_OFFLINE", {}},
                           {"TRANSFORMERS_OFFLINE", {}}}};
};

}  // namespace

TEST_CASE("what was fetched answers by its name as its folder does, without a network") {
  const FetchRoom room;
  const Finished dry = run_spillway({"fetch", "org/chat", "--dry-run"});
  CHECK(dry.status == 0);
  CHECK(dry.out.find("model.safetensors\n") != std::string::npos);
  CHECK(dry.out.find("to fetch into " + room.snapshot().string()) != std::string::npos);
  CHECK_FALSE(fs::exists("hf"));
  const Finished fetched = run_spillway({"fetch", "org/chat"});
  CAPTURE(fetched.err);
  CHECK(fetched.status == 0);
  CHECK(fetched.out == room.snapshot().string() + "\n");
  CHECK(fetched.err.find("of org/chat (commit 01234567) from http://127.0.0.1:") != std::string::npos);
  const json again = json::parse(run_spillway({"fetch", "org/chat@main", "--json"}).out);
  CHECK(again["bytes_fetched"] == 0);
  CHECK(again["folder"] == room.snapshot().string());
  const Environment offline{{{"HF_HUB_OFFLINE", "1"}, {"HF_ENDPOINT", "http://127.0.0.1:9"}}};
  const std::string expected = text_of(run_spillway(with({"generate", "model"}, kFew)));
  CHECK(text_of(run_spillway(with({"generate", "org/chat"}, kFew))) == expected);
  CHECK(text_of(run_spillway(with({"generate", "org/chat@main"}, kFew))) == expected);
  CHECK(run_spillway({"merge", "org/chat", "--adapter", "org/none", "--out", "merged"})
            .err.find("[--adapter] expected a folder, or a name of the hub") == 0);
}

TEST_CASE("a name that is not on this machine is fetched by the command that needs it, a tokenizer without weights") {
  FetchRoom room;
  const Finished tokens = run_spillway({"tokenize", "org/chat", "--text", "abc"});
  CAPTURE(tokens.err);
  CHECK(tokens.status == 0);
  CHECK(tokens.err.find("fetching org/chat (") != std::string::npos);
  CHECK_FALSE(fs::exists(room.snapshot() / "model.safetensors"));
  const std::string expected = text_of(run_spillway(with({"generate", "model"}, kFew)));
  CHECK(text_of(run_spillway(with({"generate", "org/chat"}, kFew))) == expected);
  room.hub.forget_seen();
  CHECK(text_of(run_spillway(with({"generate", "org/chat"}, kFew))) == expected);
  CHECK(room.hub.seen().empty());  // the cache has it all
}

TEST_CASE(
    "a config trains on a model, rows and an adapter of the hub, and its adapter names the model as the hub does") {
  FetchRoom room;
  const Finished planned = run_spillway({"plan", "c.yml"});
  CHECK(planned.status == 2);
  CHECK(planned.err.find("fetch it with `spillway fetch org/chat`") != std::string::npos);
  CHECK(room.hub.seen().empty());
  const Finished trained = run_spillway({"train", "c.yml"});
  CAPTURE(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(trained.err.find("fetching org/chat (") != std::string::npos);
  CHECK(trained.err.find("fetching org/rows (") != std::string::npos);
  const json adapter = json::parse(read_file("out/adapter_config.json", 1 << 16));
  CHECK(adapter["base_model_name_or_path"] == "org/chat");
  CHECK(adapter["revision"] == room.hub.repositories["models/org/chat"].commit);
  CHECK(room.read("out/README.md").find("base_model: org/chat\n") != std::string::npos);

  room.add("models/org/lora", "out");
  const Args by_folder = {"generate", "model", "--adapter", "out"},
             by_name = {"generate", "org/chat", "--adapter", "org/lora"};
  CHECK(text_of(run_spillway(with(by_name, kFew))) == text_of(run_spillway(with(by_folder, kFew))));
  const Finished more = run_spillway({"train", "c.yml", "--lora_model_dir", "org/lora", "--output_dir", "more"});
  CAPTURE(more.err);
  CHECK(more.status == 0);
  CHECK(run_spillway({"merge", "org/chat", "--adapter", "org/lora", "--out", "merged"}).status == 0);
  for (const char* file : {"tokenizer.json", "chat_template.jinja", "tokenizer_config.json", "model.safetensors"})
    CHECK_MESSAGE(fs::is_regular_file(fs::symlink_status(fs::path("merged") / file)), file);
  CHECK(run_spillway({"plan", "c.yml"}).status == 0);
}

TEST_CASE("a config plans with a model of which the cache has no weights, and prepares rows with it") {
  const FetchRoom room;
  const Finished prepared = run_spillway({"preprocess", "c.yml", "--out", "rows"});
  CAPTURE(prepared.err);
  CHECK(prepared.status == 0);
  CHECK_FALSE(fs::exists(room.snapshot() / "model.safetensors"));
  CHECK(run_spillway({"plan", "c.yml"}).status == 0);
}

TEST_CASE("revision_of_model is the revision that the cache is asked for, and that is fetched") {
  FetchRoom room;
  const std::string commit = room.hub.repositories["models/org/chat"].commit;
  const auto says = [](const Finished& run, const std::string& part) {
    CAPTURE(run.err);
    return run.err.find(part) != std::string::npos;
  };
  REQUIRE(run_spillway({"fetch", "org/chat"}).status == 0);
  {
    const Environment offline{{{"HF_HUB_OFFLINE", "1"}}};
    // The cache has main, and that branch's commit, but no branch of this name.
    const Args train = {"train", "c.yml", "--max_steps", "1", "--datasets.0.path", "rows.jsonl"};
    room.write("rows.jsonl", R"({"text": "some text to train on"})"
                             "\n");
    const Finished other = run_spillway(with(train, {"--revision_of_model", "a/branch"}));
    CHECK(other.status == 2);
    CHECK(says(other, "spillway fetch org/chat --revision a/branch"));
    for (const std::string& revision : {std::string("main"), commit}) {
      const Finished run = run_spillway(with(train, {"--revision_of_model", revision}));
      CAPTURE(run.err);
      CHECK(run.status == 0);
    }
    CHECK(run_spillway(with(train, {"--base_model", "org/chat@main", "--model_revision", "main"})).status == 0);
    CHECK(says(run_spillway(with(train, {"--base_model", "org/chat@main", "--revision_of_model", "v1"})),
               "[revision_of_model] expected the revision of base_model, 'main', got 'v1'; remove one of them"));
    CHECK(says(run_spillway(with(train, {"--revision_of_model", "../x"})),
               "expected a branch, a tag or a commit, got '../x'"));
    CHECK(says(run_spillway(with(train, {"--base_model", "model", "--revision_of_model", "v1"})),
               "revision_of_model is ignored: base_model is on this machine"));
  }
  const Finished fetched = run_spillway({"train", "c.yml", "--revision_of_model", "a/branch"});
  CAPTURE(fetched.err);
  CHECK(fetched.status == 0);
  CHECK(fs::exists("hf/hub/models--org--chat/refs/a/branch"));
  CHECK(json::parse(read_file("out/adapter_config.json", 1 << 16))["revision"] == commit);
  const Finished unknown = run_spillway({"train", "c.yml", "--revision_of_model", "none"});
  CHECK(unknown.status == 2);
  CHECK(says(unknown, "expected a revision of org/chat, got none called 'none'"));
}

TEST_CASE("patterns name the files of a data set") {
  FetchRoom room;
  room.hub.repositories["datasets/org/rows"].files["data/more.jsonl"] = {"{}\n"};
  const Finished fetched =
      run_spillway({"fetch", "org/rows", "--dataset", "--include", "*/more*", "--include", "README.md"});
  CAPTURE(fetched.err);
  CHECK(fetched.status == 0);
  const fs::path folder = room.snapshot("datasets--org--rows");
  CHECK(fs::exists(folder / "data/more.jsonl"));
  CHECK(fs::exists(folder / "README.md"));
  CHECK_FALSE(fs::exists(folder / "data/train-0.jsonl"));
}

TEST_CASE("what goes wrong with a fetch is said in a line, and nothing is left in its place") {
  FetchRoom room;
  const auto check = [&](const Args& args, int status, const std::string& text) {
    const Finished run = run_spillway(args);
    CAPTURE(run.err);
    CHECK(run.status == status);
    CHECK(run.err.find(text) != std::string::npos);
    CHECK_FALSE(fs::exists(room.snapshot()));
  };
  check({"fetch", "org/none"}, 2, "[org/none] expected a model of http://127.0.0.1:");
  check({"fetch", "org/chat", "--revision", "none"}, 2, "got none called 'none'");
  check({"fetch", "../chat"}, 2, "[ID] expected a name of the hub");
  check({"fetch", "org/chat@a", "--revision", "b"}, 2, "expected one revision, got 'a' and 'b'");
  check({"fetch", "org/chat", "--include", "*.none"}, 2, "correct --include");
  check(with({"generate", "org/none"}, kFew), 2, "expected a model of http://127.0.0.1:");
  room.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (!seen.path.ends_with(".safetensors")) return {};
    return Fault{.wrong_bytes = true};
  });
  check({"fetch", "org/chat"}, 3, "got others twice");
  {
    const Environment offline{{{"HF_HUB_OFFLINE", "1"}}};
    check({"fetch", "org/chat"}, 2, "got HF_HUB_OFFLINE; unset it");
    check(with({"generate", "org/chat"}, kFew), 2, "unset HF_HUB_OFFLINE, fetch it with `spillway fetch org/chat`");
  }
  const Environment nobody{{{"HF_ENDPOINT", "http://127.0.0.1:9"}}};
  check({"fetch", "org/chat"}, 3, "see to the network and try again");
  const Environment wrong{{{"HF_ENDPOINT", "hub.example"}}};
  check({"fetch", "org/chat"}, 2, "[HF_ENDPOINT] expected an address");
}

TEST_CASE("a fetch that is killed goes on where it was") {
  FetchRoom room;
  const std::string weights = room.hub.repositories["models/org/chat"].files["model.safetensors"].content;
  room.hub.set_fault([&](const Seen& seen) -> std::optional<Fault> {
    if (!seen.at_store) return {};
    return seen.range.empty() ? Fault{.cut_after = 5000} : Fault{.status = 503, .headers = {{"Retry-After", "100"}}};
  });
  {
    const Process fetch({"fetch", "org/chat"});
    const fs::path left = fs::path("hf/hub/models--org--chat/blobs") / (sha256_of(weights) + ".incomplete");
    std::error_code none;
    CHECK(comes_true([&] { return fs::file_size(left, none) == 5000 && !none; }));
  }  // killed
  CHECK_FALSE(fs::exists(room.snapshot()));
  room.hub.set_fault({});
  room.hub.forget_seen();
  CHECK(run_spillway({"fetch", "org/chat"}).status == 0);
  CHECK(read_file(room.snapshot() / "model.safetensors", 1 << 24) == weights);
  for (const Seen& seen : room.hub.seen()) {
    if (seen.at_store) CHECK(seen.range == "bytes=5000-");
  }
}

TEST_CASE("a run's folder is pushed without its checkpoints and logs") {
  PushCommandRoom room;
  const Finished dry = run_spillway({"push", "out", "me/adapter", "--dry-run"});
  CHECK(dry.status == 0);
  CHECK(dry.out.find("adapter_model.safetensors\n") != std::string::npos);
  CHECK(room.hub.seen().empty());
  const Finished pushed = run_spillway({"push", "out", "me/adapter", "--private"});
  CAPTURE(pushed.err);
  REQUIRE(pushed.status == 0);
  CHECK(pushed.out == room.hub.endpoint() + "/me/adapter\n");
  CHECK(pushed.err.find("sent 3 files of") != std::string::npos);
  FakeRepository& there = room.hub.repositories["models/me/adapter"];
  CHECK(there.is_private);
  CHECK(there.files.size() == 4);  // with .gitattributes
  CHECK(there.files["adapter_model.safetensors"].content == "adapter_model.safetensors");
  const json again = json::parse(run_spillway({"push", "out", "me/adapter", "--json"}).out);
  CHECK(again["sent"].empty());
  CHECK(again["unchanged"].size() == 3);
  const Finished logs = run_spillway({"push", "out", "me/adapter", "--include", "*.jsonl", "--include", "runs/*"});
  CHECK(logs.err.find("sent 2 files of") != std::string::npos);
  CHECK(there.files.contains("runs/a/events"));
  fs::create_directories("elsewhere");
  room.write("elsewhere/model.safetensors", "weights");
  fs::create_directory_symlink(fs::absolute("elsewhere"), "out/transformer");
  CHECK(run_spillway({"push", "out", "me/adapter", "--dry-run"}).out.find("transformer/model.safetensors\n") !=
        std::string::npos);
  fs::create_directory_symlink(fs::absolute("out"), "elsewhere/back");
  CHECK(run_spillway({"push", "out", "me/adapter"}).err.find("[out/transformer/back] expected a link to another") !=
        std::string::npos);
  room.write("q8_0.gguf", "GGUF");
  CHECK(run_spillway({"push", "q8_0.gguf", "me/gguf", "--revision", "v1"}).status == 0);
  CHECK(room.hub.repositories["models/me/gguf"].files["q8_0.gguf"].is_large);
}

TEST_CASE("what goes wrong with a push is said in a line that does not hold the token") {
  PushCommandRoom room;
  const auto check = [&](const Args& args, int status, const std::string& text) {
    const Finished run = run_spillway(args);
    CAPTURE(run.err);
    CHECK(run.status == status);
    CHECK(run.err.find(text) != std::string::npos);
    CHECK(run.err.find("hf_") == std::string::npos);
    CHECK(run.err.find("signature") == std::string::npos);
    CHECK(room.hub.repositories.empty());
  };
  check({"push", "none", "me/a"}, 2, "[none] expected a folder or a file to push, got none");
  check({"push", "out", "../a"}, 2, "[ORG/NAME] expected a name on the hub such as org/name, got '../a'");
  check({"push", "out", "me/a@v1"}, 2, "[ORG/NAME] expected a name on the hub");
  check({"push", "out", "me/a", "--revision", "../b"}, 2, "[--revision] expected a branch");
  check({"push", "out", "me/a", "--include", "*.bin"}, 2, "expected files of a model, got none; correct --include");
  {
    const Environment reader{{{"HF_TOKEN", "hf_reader"}}};
    check({"push", "out", "me/a"}, 2, "expected the right to write there, got HTTP status 403");
    const Environment nobody{{{"HF_TOKEN", {}}}};
    check({"push", "out", "me/a"}, 2, "[HF_TOKEN] expected a token with the right to write to me/a, got none");
  }
  const Environment gone{{{"HF_ENDPOINT", "http://127.0.0.1:9"}}};
  check({"push", "out", "me/a"}, 3, "see to the network and try again");
}

TEST_CASE("training pushes its checkpoints and its result, and no file of it holds the token") {
  FetchRoom room;
  Args args = {"train",
               "c.yml",
               "--push_to_hub",
               "true",
               "--hub_model_id",
               "me/tuned",
               "--hub_strategy",
               "checkpoint",
               "--save_steps",
               "1",
               "--hub_private_repo",
               "true",
               "--hub_always_push",
               "true",
               "--hub_token",
               "hf_secret"};
  const Environment nobody{{{"HF_TOKEN", {}}}};  // whose models need none
  REQUIRE(run_spillway({"fetch", "org/chat"}).status == 0);
  const Finished trained = run_spillway(args);
  CAPTURE(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(trained.err.find("the adapter goes to me/tuned on the hub") != std::string::npos);
  CHECK(trained.err.find("the adapter is at " + room.hub.endpoint() + "/me/tuned (commit ") != std::string::npos);
  const FakeRepository& there = room.hub.repositories["models/me/tuned"];
  CHECK(there.is_private);
  CHECK(there.files.at("adapter_model.safetensors").content == read_file("out/adapter_model.safetensors", 1 << 24));
  CHECK(there.files.at("last-checkpoint/spillway_state.json").content ==
        read_file("out/checkpoint-2/spillway_state.json", 1 << 20));
  CHECK_FALSE(there.files.contains("metrics.jsonl"));
  CHECK(trained.err.find("hf_secret") == std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator("out")) {
    CAPTURE(entry.path().string());
    if (entry.is_regular_file()) CHECK(read_file(entry.path(), 1 << 24).find("hf_secret") == std::string::npos);
  }
  // The right to write is asked for before anything is trained; a push that fails at the end leaves the result.
  args.back() = "hf_reader";
  const Finished refused = run_spillway(with(args, {"--output_dir", "other"}));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("expected the right to write there") != std::string::npos);
  CHECK_FALSE(fs::exists("other/adapter_model.safetensors"));
  args.back() = "hf_secret";
  room.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (seen.path.find("/commit/") == std::string::npos) return {};
    return Fault{.status = 413};
  });
  const Finished failed =
      run_spillway(with(args, {"--output_dir", "other", "--hub_strategy", "end", "--hub_revision", "v2"}));
  CAPTURE(failed.err);
  CHECK(failed.status == 3);
  CHECK(failed.err.find("`spillway push other me/tuned --revision v2 --private` sends it") != std::string::npos);
  CHECK(fs::exists("other/adapter_model.safetensors"));
}

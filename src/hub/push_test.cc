#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "hub/push.h"
#include "hub/testing/cutting_proxy.h"
#include "hub/testing/fake_hub.h"
#include "io/file.h"
#include "tests/support/environment.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::string kWeights = [] {
  std::string bytes(25000, '\0');
  unsigned seed = 7;
  for (char& c : bytes) c = static_cast<char>((seed = seed * 1103515245 + 12345) >> 16);
  return bytes;
}();

// A hub without repositories, and a folder of a model.
struct PushRoom {
  PushRoom() {
    hub.part_bytes = 10000;
    add("config.json", "{\"a\": 1}\n");
    add("model.safetensors", kWeights);
    add("README.md", "read me\n");
    add("empty.txt", "");
    options.server = {.endpoint = hub.endpoint(), .token = "hf_secret", .attempts = 4, .first_wait_seconds = 0.001};
    options.message = "Upload model";
  }

  void add(const std::string& file_name, const std::string& content) {
    fs::create_directories((folder.path() / file_name).parent_path());
    write_file(folder.path() / file_name, content);
    std::erase_if(files, [&](const hub::PushedFile& file) { return file.name == file_name; });
    files.push_back({folder.path() / file_name, file_name, static_cast<int64_t>(content.size())});
  }
  hub::Pushed push(const std::string& id = "org/name", const std::string& revision = "") const {
    return hub::push({.id = id, .revision = revision}, files, options);
  }
  FakeRepository& there() { return hub.repositories["models/" + name]; }
  void check_whole() {
    for (const hub::PushedFile& file : files) {
      CAPTURE(file.name);
      REQUIRE(there().files.contains(file.name));
      CHECK(there().files[file.name].content == read_file(file.path, 1 << 20));
    }
  }
  template <typename Error>
  std::string failure() const {
    try {
      (void)push();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  [[nodiscard]] int requests(const std::string& method, const std::string& part) {
    int count = 0;
    for (const Seen& seen : hub.seen()) count += seen.method == method && seen.path.find(part) != std::string::npos;
    return count;
  }

  FakeHub hub;
  std::string name = "org/name";
  TemporaryFolder folder;
  Environment environment{{{"HF_HUB_OFFLINE", {}}, {"TRANSFORMERS_OFFLINE", {}}, {"HF_TOKEN", {}}}};
  std::vector<hub::PushedFile> files;
  hub::PushOptions options;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a folder becomes a commit of a new repository, and a second push of it sends nothing") {
  PushRoom room;
  const hub::Pushed first = room.push();
  room.check_whole();
  CHECK(first.is_new);
  CHECK(first.commit == room.there().commit);
  CHECK(first.url == room.hub.endpoint() + "/org/name");
  CHECK(first.sent.size() == 4);
  CHECK(first.bytes == 25000 + 9 + 8);
  CHECK(room.there().files["model.safetensors"].is_large);
  CHECK_FALSE(room.there().files["empty.txt"].is_large);
  CHECK_FALSE(room.there().is_private);
  CHECK(room.requests("PUT", "/objects/") == 3);  // parts
  room.hub.forget_seen();
  const hub::Pushed second = room.push();
  CHECK(second.sent.empty());
  CHECK(second.unchanged.size() == 4);
  CHECK(second.commit == first.commit);
  CHECK(room.requests("POST", "") == 0);
  room.add("config.json", "{\"a\": 2}\n");
  const hub::Pushed third = room.push();
  CHECK(third.sent == std::vector<std::string>{"config.json"});
  room.check_whole();
}

TEST_CASE("what is sent is what huggingface_hub sends for the same folder") {
  const json golden = json::parse(read_file(source_folder() / "tests/golden/hub_push/requests.json", 1 << 20));
  PushRoom room;
  room.hub.part_bytes = golden["part_bytes"];
  room.options.message = golden["message"];
  room.options.is_private = true;
  room.options.connections = 1;
  room.files.clear();
  for (const auto& [name, content] : golden["files"].items()) room.add(name, content);
  room.add("model.safetensors", kWeights);
  (void)room.push("org/name", golden["revision"]);
  // Ours by method and path; the order of files within a request is free.
  std::map<std::string, std::vector<Seen>> ours;
  for (const Seen& seen : room.hub.seen()) ours[seen.method + " " + seen.path].push_back(seen);
  const auto lines = [](const std::string& text) {
    std::multiset<std::string> result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      json item = json::parse(line);
      if (item["key"] == "header") item["value"].erase("parentCommit");  // ours alone
      result.insert(item.dump());
    }
    return result;
  };
  const auto sorted = [](json body) {
    for (const char* list : {"files", "objects"}) {
      if (body.contains(list)) std::sort(body[list].begin(), body[list].end());
    }
    return body;
  };
  for (const json& theirs : golden["requests"]) {
    const std::string key = theirs["method"].get<std::string>() + " " + theirs["path"].get<std::string>();
    CAPTURE(key);
    REQUIRE_FALSE(ours[key].empty());
    const Seen mine = ours[key].front();
    ours[key].erase(ours[key].begin());
    CHECK(!mine.token.empty() == theirs["has_token"].get<bool>());
    if (mine.method == "PUT") {
      CHECK(sha256_of(mine.body) == theirs["sha256"]);
      continue;
    }
    CHECK(mine.type == theirs["type"]);
    const std::string body = theirs["body"];
    if (has(key, "/commit/")) {
      CHECK(lines(mine.body) == lines(body));
    } else {
      CHECK(sorted(json::parse(mine.body)) == sorted(json::parse(body)));
    }
  }
  for (const auto& [key, left] : ours) {
    CAPTURE(key);
    CHECK((left.empty() || key.starts_with("GET ")));
  }
}

TEST_CASE("the token goes to the hub alone, and stands in no error") {
  PushRoom room;
  (void)room.push();
  for (const Seen& seen : room.hub.seen()) {
    CAPTURE(seen.path);
    CHECK(seen.token == (seen.at_store || seen.path.starts_with("/parts/") ? "" : "Bearer hf_secret"));
  }
  PushRoom reader;
  reader.options.server.token = "hf_reader";  // which the hub repeats
  const std::string refused = reader.failure<InputError>();
  CHECK(has(refused, "expected the right to write there, got HTTP status 403 ('you may not write here, ...')"));
  CHECK_FALSE(has(refused, "hf_reader"));
  reader.hub.repositories["models/org/name"];  // and where it exists
  CHECK(has(reader.failure<InputError>(), "has the role write"));
  CHECK_THROWS_WITH_AS((void)hub::prepare_push({.id = "org/name"}, reader.options), doctest::Contains("right to write"),
                       InputError);
  reader.options.server.token = "hf_old";
  CHECK(has(reader.failure<InputError>(), "expected a valid token, got HTTP status 401"));
  reader.options.server.token = "";
  CHECK(has(reader.failure<InputError>(), "[HF_TOKEN] expected a token with the right to write to org/name, got none"));
}

TEST_CASE("other files of a repository stay, and other weights are refused unless they are to be replaced") {
  PushRoom room;
  room.there().files = {{"notes.txt", {"mine"}},
                        {"sub/model.safetensors", {"other", true}},
                        {"q8.gguf", {"other", true}},
                        {"model-00001-of-00002.safetensors", {"old", true}},
                        {"model.safetensors.index.json", {"{}"}}};
  const std::string refused = room.failure<InputError>();
  CHECK(has(refused,
            "[org/name] expected a repository without other weights, got model-00001-of-00002.safetensors and "
            "1 more; choose another name or revision, or replace them (--replace-weights)"));
  CHECK(room.there().files.size() == 5);
  CHECK_THROWS_WITH_AS((void)hub::prepare_push({.id = "org/name"}, room.options, "adapter_model*.safetensors*"),
                       doctest::Contains("got model-00001-of-00002.safetensors and 1 more"), InputError);
  CHECK(hub::prepare_push({.id = "org/name"}, room.options, "model*.safetensors*").id == "org/name");
  CHECK(hub::prepare_push({.id = "org/name"}, room.options, "new/model*.safetensors*").id == "org/name");
  room.options.replaces_weights = true;
  const hub::Pushed pushed = room.push();
  CHECK(pushed.removed.size() == 2);
  room.check_whole();
  CHECK(room.there().files.contains("notes.txt"));
  CHECK(room.there().files.contains("q8.gguf"));
  CHECK(room.there().files.contains("sub/model.safetensors"));
  CHECK(room.there().files.size() == 7);
}

TEST_CASE("weights are removed for tensors that are sent, not for an index or for files that are ignored") {
  PushRoom room;
  room.there().files = {{"model-00001-of-00002.safetensors", {"old", true}},
                        {"ignored/old.safetensors", {"old", true}},
                        {"sub/old.safetensors", {"old", true}}};
  room.options.replaces_weights = true;
  std::erase_if(room.files, [](const hub::PushedFile& file) { return file.name == "model.safetensors"; });
  room.add("model.safetensors.index.json", "{}");
  room.add("ignored/new.safetensors", kWeights);
  CHECK(room.push().removed.empty());
  room.add("sub/new.safetensors", kWeights);
  CHECK(room.push().removed == std::vector<std::string>{"sub/old.safetensors"});
  CHECK(room.there().files.contains("model-00001-of-00002.safetensors"));
}

TEST_CASE("a revision is a branch, which is made where it is not there; names without an owner get one") {
  PushRoom room;
  const hub::Pushed pushed = room.push("org/name", "new/branch");
  CHECK(room.there().branches.contains("new/branch"));
  CHECK(pushed.sent.size() == 4);
  CHECK(hub::push({.id = "name"}, room.files, room.options).repository.id == "me/name");
  CHECK(room.hub.repositories["models/me/name"].files.size() == 5);
  CHECK_THROWS_WITH_AS((void)room.push("org/name", std::string(40, 'a')),
                       doctest::Contains("expected a branch to push to, got a commit"), InputError);
  room.options.is_private = true;
  CHECK(has(room.failure<InputError>(), "expected a private repository, got a public one"));
  CHECK_THROWS_WITH_AS((void)room.push("org/name", "later"), doctest::Contains("expected a private repository"),
                       InputError);
  CHECK_FALSE(room.there().branches.contains("later"));
  CHECK(hub::prepare_push({.id = "org/secret"}, room.options).id == "org/secret");
  CHECK(room.hub.repositories["models/org/secret"].is_private);
}

TEST_CASE("files that the repository ignores, or that the store has, are not sent") {
  PushRoom room;
  room.add("a.ignored", "x");
  room.add("copy.safetensors", kWeights);
  CHECK(room.push().ignored == std::vector<std::string>{"a.ignored"});
  CHECK(room.requests("PUT", "/objects/") == 3);
  std::erase_if(room.files, [](const hub::PushedFile& file) { return file.name == "a.ignored"; });
  room.hub.forget_seen();
  CHECK(room.push("org/other").sent.size() == 5);
  CHECK(room.requests("PUT", "") == 0);
}

TEST_CASE("a connection that dies anywhere costs one request") {
  struct Where {
    const char* what;
    bool is_answer;
    std::function<int64_t(const Message&)> after;
  };
  const Where places[] = {
      {"before the request", false, [](const Message&) { return 0; }},
      {"in its first line", false, [](const Message&) { return 4; }},
      {"in its head", false, [](const Message& m) { return m.head_bytes - 3; }},
      {"before its body", false, [](const Message& m) { return m.head_bytes; }},
      {"in its body", false, [](const Message& m) { return m.head_bytes + m.body_bytes / 2; }},
      {"before its last byte", false, [](const Message& m) { return m.head_bytes + m.body_bytes - 1; }},
      {"before the answer", true, [](const Message&) { return 0; }},
      {"in its first line", true, [](const Message&) { return 7; }},
      {"in its head", true, [](const Message& m) { return m.head_bytes - 3; }},
      {"before its last byte", true, [](const Message& m) { return m.head_bytes + m.body_bytes - 1; }},
  };
  const std::pair<const char*, const char*> kinds[] = {
      {"GET", "/revision/"},   {"POST", "/repos/create"}, {"POST", "/branch/"},
      {"POST", "/preupload/"}, {"POST", "/batch"},        {"PUT", "/objects/"},
      {"POST", "/parts/"},     {"POST", "/verify"},       {"POST", "/commit/"}};
  PushRoom room;
  CuttingProxy hub(room.hub.endpoint()), store(room.hub.store_address);
  room.options.server.endpoint = room.hub.hub_address = hub.endpoint();
  room.hub.store_address = store.endpoint();
  int pushes = 0;
  for (const auto& [method, path] : kinds) {
    for (const Where& where : places) {
      CAPTURE(path);
      CAPTURE(where.what);
      CAPTURE(where.is_answer);
      bool is_cut = false;
      const auto cut = [&, method = method, path = path](const Message& message) -> std::optional<int64_t> {
        if (is_cut || message.is_answer != where.is_answer || message.method != method || !has(message.path, path))
          return {};
        is_cut = true;
        return where.after(message);
      };
      hub.set_cut(cut);
      store.set_cut(cut);
      room.name = fmt::format("org/name{}", ++pushes);
      room.add("model.safetensors", kWeights + room.name);  // which the store does not have
      const hub::Pushed pushed = room.push(room.name, "next");
      CHECK(is_cut);
      CHECK(pushed.sent.size() == 4);
      CHECK(pushed.commit == fmt::format("{:040x}", pushes));  // one each, whatever was lost
      room.check_whole();
    }
  }
}

TEST_CASE("a server that is busy is asked again, and a part that failed is sent alone") {
  PushRoom room;
  int busy = 2;
  room.hub.set_fault([&](const Seen& seen) -> std::optional<Fault> {
    if (!seen.path.ends_with("/2") || busy-- <= 0) return {};
    return Fault{.status = 503};
  });
  (void)room.push();
  room.check_whole();
  CHECK(room.requests("PUT", "/objects/") == 5);
  PushRoom down;
  down.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (!seen.at_store) return {};
    return Fault{.status = 503};
  });
  const std::string message = down.failure<MachineError>();
  CHECK(has(message, "model.safetensors] expected http://127.0.0.1:"));
  CHECK(has(message, "got HTTP status 503; push again later, files that have arrived are not sent again"));
  CHECK_FALSE(has(message, "signature"));
  CHECK(down.there().files.size() == 1);  // no part of a commit
}

TEST_CASE("addresses that have expired are asked for again, but not for ever") {
  PushRoom room;
  int expired = 1;
  room.hub.set_fault([&](const Seen& seen) -> std::optional<Fault> {
    if (!seen.at_store || expired-- <= 0) return {};
    return Fault{.status = 403};
  });
  (void)room.push();
  room.check_whole();
  CHECK(room.requests("POST", "/batch") == 2);
  PushRoom never;
  never.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (!seen.at_store) return {};
    return Fault{.status = 403};
  });
  CHECK(has(never.failure<InputError>(), "model.safetensors] expected the right to write there, got HTTP status 403"));
  CHECK(never.requests("POST", "/batch") == 3);
}

TEST_CASE("somebody else's push in between is not written over") {
  PushRoom room;
  room.hub.set_fault([&](const Seen& seen) -> std::optional<Fault> {
    if (has(seen.path, "/commit/")) room.there().commit = std::string(40, 'c');
    return {};
  });
  CHECK(has(room.failure<MachineError>(), "got cccccccc: somebody else has pushed; push again"));
}

TEST_CASE("no network is a MachineError, HF_HUB_OFFLINE asks nobody, and other answers are no bugs") {
  PushRoom room;
  for (const char* part : {"/create", "/preupload/", "/batch", "/commit/"}) {
    CAPTURE(part);
    room.hub.set_fault([part](const Seen& seen) -> std::optional<Fault> {
      if (!has(seen.path, part)) return {};
      return Fault{.status = 400};
    });
    CHECK(has(room.failure<InputError>(), "got HTTP status 400; see to what it says"));
  }
  for (const char* part : {"/preupload/", "/batch"}) {
    CAPTURE(part);
    room.hub.set_fault([part](const Seen& seen) -> std::optional<Fault> {
      if (!has(seen.path, part)) return {};
      return Fault{.status = 200};  // "{}"
    });
    CHECK(has(room.failure<MachineError>(), "expected"));
  }
  const Environment offline{{{"HF_HUB_OFFLINE", "1"}}};
  room.hub.forget_seen();
  CHECK(has(room.failure<InputError>(), "got HF_HUB_OFFLINE; unset it"));
  CHECK(room.hub.seen().empty());
  const Environment online{{{"HF_HUB_OFFLINE", {}}}};
  room.options.server.endpoint = "http://127.0.0.1:9";
  CHECK(has(room.failure<MachineError>(), "see to the network"));
}

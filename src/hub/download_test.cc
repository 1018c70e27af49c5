#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "hub/cache.h"
#include "hub/fetch.h"
#include "hub/testing/fake_hub.h"
#include "io/file.h"
#include "tests/support/environment.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string bytes(size_t count, unsigned seed) {
  std::string result(count, '\0');
  for (char& c : result) c = static_cast<char>((seed = seed * 1103515245 + 12345) >> 16);
  return result;
}

// A hub with a model, and an empty cache.
struct Place {
  Place() {
    hub.repositories["models/org/name"].files = {{"config.json", {"{\"a\": 1}"}},
                                                 {"README.md", {"read me"}},
                                                 {"tokenizer.json", {bytes(3000, 1), true}},
                                                 {"model.safetensors", {bytes(100000, 2), true}}};
    options = fresh();
  }

  [[nodiscard]] hub::FetchOptions fresh() const {
    hub::FetchOptions result;
    result.server = {.endpoint = hub.endpoint(), .token = "hf_secret", .attempts = 4, .first_wait_seconds = 0.001};
    result.piece_bytes = 4096;
    return result;
  }
  hub::FetchList list() const { return hub::list_fetch({.id = "org/name"}, options); }
  void fetch() const { hub::fetch(list(), options); }
  [[nodiscard]] fs::path repository() const { return home.path() / "hub/models--org--name"; }
  [[nodiscard]] fs::path snapshot() const { return repository() / "snapshots" / kCommit; }
  void check_whole() const {
    for (const auto& [name, file] : hub.repositories.at("models/org/name").files) {
      CAPTURE(name);
      REQUIRE(fs::exists(snapshot() / name));
      CHECK(read_file(snapshot() / name, 1 << 20) == file.content);
    }
    CHECK(read_file(repository() / "refs/main", 100) == kCommit);
    for (const auto& entry : fs::directory_iterator(repository() / "blobs"))
      CHECK(entry.path().extension() != ".incomplete");
  }
  // Returns the message of the failure; checks that the snapshot is empty then.
  template <typename Error>
  std::string failure() const {
    try {
      fetch();
    } catch (const Error& error) {
      CHECK(!fs::exists(snapshot()));
      CHECK(!fs::exists(repository() / "refs/main"));
      return error.what();
    }
    return "";
  }

  FakeHub hub;
  TemporaryFolder home;
  Environment environment{{{"HF_HOME", home.path().string()},
                           {"HF_HUB_CACHE", {}},
                           {"HUGGINGFACE_HUB_CACHE", {}},
                           {"HF_TOKEN", {}},
                           {"HF_ENDPOINT", {}},
                           {"HF_HUB_OFFLINE", {}},
                           {"TRANSFORMERS_OFFLINE", {}}}};
  hub::FetchOptions options;
};

// Answers the first `count` requests for which `is_meant` returns true with the fault.
template <typename Predicate>
void fail_first(FakeHub& hub, int count, const Fault& fault, Predicate is_meant) {
  hub.set_fault([count, fault, is_meant](const Seen& seen) mutable -> std::optional<Fault> {
    if (!is_meant(seen) || count == 0) return {};
    --count;
    return fault;
  });
}

bool is_weights(const Seen& seen) { return seen.path.ends_with("model.safetensors") && seen.at_store; }

}  // namespace

TEST_CASE("a model is fetched into the layout of huggingface_hub, and a second time nothing is") {
  Place place;
  place.fetch();
  place.check_whole();
  CHECK(fs::read_symlink(place.snapshot() / "model.safetensors") ==
        "../../blobs/" + sha256_of(place.hub.repositories["models/org/name"].files["model.safetensors"].content));
  CHECK(fs::read_symlink(place.snapshot() / "config.json") == "../../blobs/" + git_blob_of("{\"a\": 1}"));
  CHECK(hub::snapshot_folder(hub::cache_folder(), {.id = "org/name"}) == place.snapshot());
  place.hub.forget_seen();
  CHECK(place.list().missing_bytes == 0);
  place.fetch();
  for (const Seen& seen : place.hub.seen()) CHECK(seen.path.starts_with("/api/"));
}

TEST_CASE("the token goes to the hub and never to the host that a redirect leads to") {
  Place place;
  place.fetch();
  int at_store = 0;
  for (const Seen& seen : place.hub.seen()) {
    CHECK(seen.token == (seen.at_store ? "" : "Bearer hf_secret"));
    at_store += seen.at_store ? 1 : 0;
  }
  CHECK(at_store > 20);  // pieces of the weights
}

TEST_CASE("connections that are cut are gone on with where they ended") {
  for (const int64_t cut : {0, 1, 1000}) {
    CAPTURE(cut);
    Place place;
    fail_first(place.hub, 3, {.cut_after = cut},
               [](const Seen& seen) { return seen.method == "GET" && seen.at_store; });
    place.fetch();
    place.check_whole();
  }
  Place place;  // in one stream
  place.options.piece_bytes = 1 << 20;
  int64_t more = 0;
  fail_first(place.hub, 50, {.cut_after = 10000}, is_weights);
  place.fetch();
  place.check_whole();
  for (const Seen& seen : place.hub.seen()) more += is_weights(seen) && !seen.range.empty() ? 1 : 0;
  CHECK(more == 9);
}

TEST_CASE("what a killed process has left of a file is gone on with") {
  Place place;
  const std::string weights = place.hub.repositories["models/org/name"].files["model.safetensors"].content;
  fs::create_directories(place.repository() / "blobs");
  write_file(place.repository() / "blobs" / (sha256_of(weights) + ".incomplete"), weights.substr(0, 60000));
  place.fetch();
  place.check_whole();
  for (const Seen& seen : place.hub.seen()) {
    if (!is_weights(seen)) continue;
    REQUIRE(seen.range.starts_with("bytes="));
    CHECK(std::stol(seen.range.substr(6)) >= 60000);
  }
}

TEST_CASE("what is left of a file and is wrong is fetched again") {
  for (const size_t left : {60000, 100000, 100001}) {
    Place place;
    const std::string weights = place.hub.repositories["models/org/name"].files["model.safetensors"].content;
    fs::create_directories(place.repository() / "blobs");
    write_file(place.repository() / "blobs" / (sha256_of(weights) + ".incomplete"), std::string(left, 'x'));
    place.fetch();
    place.check_whole();
  }
}

TEST_CASE("a server that ignores ranges is read from the start") {
  Place place;
  place.hub.set_fault([](const Seen&) { return Fault{.ignores_range = true}; });
  place.fetch();
  place.check_whole();
  Place cut;  // and cuts connections too
  int count = 0;
  cut.hub.set_fault([&count](const Seen& seen) {
    return Fault{.cut_after = is_weights(seen) && ++count < 40 && count % 3 != 0 ? 2000 : -1, .ignores_range = true};
  });
  cut.options.server.attempts = 100;
  cut.fetch();
  cut.check_whole();
}

TEST_CASE("wrong bytes are fetched again, and refused when they come twice") {
  Place place;
  fail_first(place.hub, 1, {.wrong_bytes = true},
             [](const Seen& seen) { return seen.method == "GET" && seen.path.ends_with("config.json"); });
  place.fetch();
  place.check_whole();
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    CAPTURE(name);
    Place wrong;
    wrong.hub.set_fault([name](const Seen& seen) -> std::optional<Fault> {
      if (!seen.path.ends_with(name)) return {};
      return Fault{.wrong_bytes = true};
    });
    CHECK(wrong.failure<MachineError>().find("got others twice; try again later") != std::string::npos);
  }
}

TEST_CASE("more bytes than were announced, and another size than was listed, are refused") {
  Place place;
  place.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (!seen.path.ends_with("tokenizer.json") || !seen.at_store) return {};
    return Fault{.ignores_range = true, .longer = true};
  });
  CHECK(place.failure<MachineError>().find("more bytes than the 3000 announced") != std::string::npos);
  place.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (!seen.path.ends_with("config.json")) return {};
    return Fault{.longer = true};
  });
  CHECK(place.failure<MachineError>().find("expected 8 bytes, got an announcement of 12") != std::string::npos);
}

TEST_CASE("a server that is busy is asked again when it says so") {
  Place place;
  fail_first(place.hub, 2, {.status = 429, .headers = {{"Retry-After", "0"}}},
             [](const Seen& seen) { return seen.path.starts_with("/api/"); });
  place.fetch();
  place.check_whole();
  Place failing;
  fail_first(failing.hub, 3, {.status = 503}, [](const Seen& seen) { return seen.at_store; });
  failing.fetch();
  failing.check_whole();
  Place down;
  down.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (!seen.at_store) return {};
    return Fault{.status = 503};
  });
  CHECK(down.failure<MachineError>().find("got HTTP status 503; try again later") != std::string::npos);
}

TEST_CASE("Retry-After is waited for") {
  Place place;
  fail_first(place.hub, 1, {.status = 429, .headers = {{"Retry-After", "1"}}}, [](const Seen&) { return true; });
  const auto begin = std::chrono::steady_clock::now();
  CHECK(place.list().files.size() == 4);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1));
}

TEST_CASE("an address that has expired is asked for again") {
  Place place;
  fail_first(place.hub, 1, {.status = 403}, is_weights);
  place.fetch();
  place.check_whole();
}

TEST_CASE("what the user can mend is an InputError that says how") {
  Place place;
  const auto refusal = [&](int status, const std::string& code) {
    place.hub.set_fault([=](const Seen&) { return Fault{.status = status, .headers = {{"X-Error-Code", code}}}; });
    return place.failure<InputError>();
  };
  CHECK(refusal(404, "RepoNotFound").find("got none of that name (404); check the name") != std::string::npos);
  CHECK(refusal(401, "RepoNotFound").find("got none of that name (401); check the name") != std::string::npos);
  CHECK(refusal(403, "GatedRepo").find("it is gated; ask for access at " + place.hub.endpoint() + "/org/name") !=
        std::string::npos);
  CHECK(refusal(404, "RevisionNotFound").find("got none called 'main'") != std::string::npos);
  CHECK(refusal(401, "").find("see that HF_TOKEN") != std::string::npos);
  // Access is refused when the file is requested.
  place.hub.set_fault([](const Seen& seen) -> std::optional<Fault> {
    if (seen.path.starts_with("/api/")) return {};
    return Fault{.status = 403, .headers = {{"X-Error-Code", "GatedRepo"}}};
  });
  CHECK(place.failure<InputError>().find("it is gated") != std::string::npos);
  place.options.server.token.clear();
  CHECK(place.failure<InputError>().find("and set HF_TOKEN") != std::string::npos);
}

TEST_CASE("no network is a MachineError, and HF_HUB_OFFLINE asks nobody") {
  Place place;
  place.options.server.endpoint = "http://127.0.0.1:9";
  CHECK(place.failure<MachineError>().find("see to the network") != std::string::npos);
  place.options = place.fresh();
  const Environment offline{{{"HF_HUB_OFFLINE", "1"}}};
  CHECK(place.failure<InputError>().find("got HF_HUB_OFFLINE; unset it") != std::string::npos);
  CHECK(place.hub.seen().empty());
}

TEST_CASE("several fetches of the same files at once leave one whole cache") {
  Place place;
  std::atomic<int> done{0};
  const hub::FetchList list = place.list();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      hub::fetch(list, place.options);
      ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(done == 4);
  place.check_whole();
}

TEST_CASE("files with the same bytes are one blob") {
  Place place;
  auto& files = place.hub.repositories["models/org/name"].files;
  for (int i = 0; i < 20; ++i) files["same" + std::to_string(i) + ".json"] = {bytes(50000, 7), true};
  place.fetch();
  place.check_whole();
}

TEST_CASE("progress comes to the sum of all files") {
  Place place;
  int64_t last = 0, total = 0;
  place.options.on_progress = [&](int64_t done, int64_t of) {
    last = done;
    total = of;
  };
  fail_first(place.hub, 3, {.cut_after = 1000}, is_weights);
  place.fetch();
  CHECK(total == 8 + 7 + 3000 + 100000);
  CHECK(last == total);
}

TEST_CASE("branches with slashes, and commits, are revisions") {
  Place place;
  for (const char* revision : {"a/branch", kCommit}) {
    const hub::Repository repository{.id = "org/name", .revision = revision};
    hub::fetch(hub::list_fetch(repository, place.options), place.options);
    CHECK(hub::snapshot_folder(hub::cache_folder(), repository) == place.snapshot());
  }
  CHECK(read_file(place.repository() / "refs/a/branch", 100) == kCommit);
  CHECK(!fs::exists(place.repository() / "refs" / kCommit));
}

TEST_CASE("a hub that names files outside of its folder is refused") {
  Place place;
  for (const char* name : {"../evil.json", "/etc/evil.json", "a/../../evil.json"}) {
    place.hub.repositories["models/org/name"].files = {{name, {"x"}}};
    place.options.include = {"*"};
    CHECK(place.failure<InputError>().find("expected names of files in a folder") != std::string::npos);
  }
}

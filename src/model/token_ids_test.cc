#include "model/token_ids.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;
using nlohmann::json;

namespace {

constexpr const char* kTokenizer =
    R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}, "unk_token": "a"}})";

text::Tokenizer tokenizer_with(const char* roles) { return text::Tokenizer::from_json(kTokenizer, roles, "t"); }

}  // namespace

TEST_CASE("a model's files get the ids of the roles that changed") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const json& content) { write_file(folder.path() / name, content.dump()); };
  const auto written = [&](const char* name) { return parse_json(read_file(folder.path() / name, 1 << 20), name); };
  const text::Tokenizer before = tokenizer_with(R"({"bos_token": "a", "eos_token": "b"})"),
                        now = tokenizer_with(R"({"bos_token": "a", "eos_token": "c", "pad_token": "d"})");
  save_token_ids(folder.path(), before, now);  // no files: nothing to do
  write("config.json", {{"bos_token_id", 7}, {"eos_token_id", {1, 3}}, {"vocab_size", 4}});
  write("generation_config.json", {{"eos_token_id", {1, 3}}, {"temperature", 0.5}});
  const std::string text = read_file(folder.path() / "config.json", 1 << 20);
  save_token_ids(folder.path(), before, before);
  CHECK(read_file(folder.path() / "config.json", 1 << 20) == text);
  for (int time = 0; time < 2; ++time) {
    save_token_ids(folder.path(), before, now);
    CHECK(written("config.json") ==
          json{{"bos_token_id", 7}, {"eos_token_id", 2}, {"pad_token_id", 3}, {"vocab_size", 4}});
    CHECK(written("generation_config.json") ==
          json{{"eos_token_id", {2, 1, 3}}, {"pad_token_id", 3}, {"temperature", 0.5}});
  }
  for (const json& none : {json::object(), json{{"eos_token_id", nullptr}}, json{{"eos_token_id", 2}}}) {
    write("generation_config.json", none);
    save_token_ids(folder.path(), before, now);
    CHECK(written("generation_config.json") == json{{"eos_token_id", 2}, {"pad_token_id", 3}});
  }
}

TEST_CASE("ends that were learned come behind those that generation_config.json lists") {
  const std::vector<int32_t> ends = {3, 1};
  const auto now = [&](const char* generation, const char* config) {
    const std::string text = with_ends(generation, config, ends, "f");
    return text.empty() ? json() : parse_json(text, "f");
  };
  CHECK(now(R"({"eos_token_id": 1, "temperature": 0.5})", "") == json{{"eos_token_id", {1, 3}}, {"temperature", 0.5}});
  CHECK(now(R"({"eos_token_id": [2, 1]})", "") == json{{"eos_token_id", {2, 1, 3}}});
  CHECK(now("{}", R"({"eos_token_id": 2})") == json{{"eos_token_id", {3, 1}}});
  // Without the file, config.json says what programs take.
  CHECK(now("", R"({"bos_token_id": 7, "eos_token_id": 2, "vocab_size": 9})") ==
        json{{"_from_model_config", true}, {"bos_token_id", 7}, {"eos_token_id", {2, 3, 1}}});
  CHECK(now("", R"({"eos_token_id": [1, 2, 3]})").is_null());
  const std::string same = R"({"eos_token_id": [1, 3]})";
  CHECK(with_ends(same, "", ends, "f") == same);
  CHECK_THROWS_WITH((void)with_ends("[]", "", ends, "f"), "[f] expected a JSON object, got something else; correct it");
  const TemporaryFolder folder;
  CHECK(listed_ends(folder.path()).empty());
  save_ends(folder.path(), ends);
  CHECK(listed_ends(folder.path()) == ends);
}

// Values of another type than their key's: each is named by its key, with a remedy.
#include "config/values.h"

#include <doctest/doctest.h>

#include <string>

#include "config/keys.h"
#include "config/load.h"
#include "tests/support/small_config.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::nested_line;

namespace {

constexpr const char* kValues[] = {"3", "0.5", "true", "abc", "'3'", "''", "[a]", "[3]", "[[a]]", "[{a: b}]", "{a: b}"};

std::string shown_verdict(const KeyVerdict& verdict) { return fmt::format("{} | {}", verdict.key, verdict.message); }

// Checks the form of every message about the key at `path`, which a config with `line` behind it sets.
void check_messages(const std::string& line, const std::string& path) {
  CAPTURE(line);
  const LoadedConfig loaded = check_config(spillway::testing::small_config(line), "c.yml", {}, ConfigUse::kTrain);
  for (const KeyVerdict& verdict : loaded.verdicts.keys()) {
    // Another objective has other types of rows.
    if (verdict.message.empty() || (verdict.key == "datasets.0.type" && path != "type")) continue;
    CAPTURE(shown_verdict(verdict));
    const std::string& message = verdict.message;
    CHECK(message.starts_with("[c.yml:"));
    CHECK(message.substr(0, message.find("] ")).find(path) != std::string::npos);
    const size_t got = message.find(", got ");
    REQUIRE(got != std::string::npos);
    CHECK(message.find("] expected ") < got);
    CHECK(message.find("; ", got) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  if (loaded.conflict.empty()) return;
  CAPTURE(loaded.conflict);
  CHECK(loaded.conflict.starts_with('['));
  CHECK(loaded.conflict.find("; ") != std::string::npos);
}

}  // namespace

TEST_CASE("a value of any type is taken, or refused by the key's name with a remedy") {
  int keys = 0;
  for (const KeySection& section : config_sections()) {
    for (const ConfigKey& key : section.keys) {
      if (key.name.ends_with('*') || key.name == "base_model" || key.name == "learning_rate" || key.name == "datasets")
        continue;
      ++keys;
      for (const char* value : kValues) check_messages(nested_line(key.name, value), std::string(key.name));
    }
  }
  CHECK(keys > 500);
}

TEST_CASE("a value of any type of a dataset's key is taken, or refused by the key's name with a remedy") {
  for (const ConfigKey& key : dataset_section().keys) {
    if (key.name == "path" || key.name.find('.') != std::string_view::npos) continue;
    for (const char* value : kValues)
      check_messages(fmt::format("test_datasets: [{{path: t, {}: {}}}]\n", key.name, value), std::string(key.name));
  }
}

TEST_CASE("every key of a text takes a text, and no list") {
  int texts = 0;
  for (const KeySection& section : config_sections()) {
    for (const ConfigKey& key : section.keys) {
      if (key.status != KeyStatus::kSupported || key.type->name() != "text") continue;
      CAPTURE(std::string(key.name));
      ++texts;
      Spelled keys;
      const KeyPlace place{"c.yml", 6, std::string(key.name)};
      key.read(YamlNode::scalar("a text: with signs, 3"), place, &keys);
      CHECK(key.print(&keys) == "a text: with signs, 3");
      YamlNode list;
      list.kind = YamlNode::Kind::kList;
      CHECK_THROWS_WITH_AS(
          key.read(list, place, &keys),
          fmt::format("[c.yml:6: {}] expected text, got a list of 0; write one value", key.name).c_str(), InputError);
    }
  }
  CHECK(texts > 30);
}

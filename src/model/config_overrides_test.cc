#include "model/config_overrides.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "model/decoder/config.h"
#include "model/model.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using nlohmann::json;
using spillway::testing::kGoldenModels;

TEST_CASE("overrides replace keys of a config.json, nested ones too, and leave the others as they are") {
  const auto with = [](const json& config, const json& overrides) {
    return json::parse(with_overrides(config.dump(), overrides.dump(), "config.json"));
  };
  CHECK(with({{"a", 1}, {"b", 2}}, {{"b", 3}, {"c", {4}}}) == json{{"a", 1}, {"b", 3}, {"c", {4}}});
  CHECK(with({{"t", {{"a", 1}, {"b", {{"c", 2}}}}}}, {{"t", {{"b", {{"d", 3}}}}}}) ==
        json{{"t", {{"a", 1}, {"b", {{"c", 2}, {"d", 3}}}}}});
  CHECK(with({{"a", {{"b", 1}}}}, {{"a", nullptr}}) == json{{"a", nullptr}});
  CHECK(with({{"a", 1}}, {{"a", {{"b", 1}}}}) == json{{"a", {{"b", 1}}}});
  // Two names of one key.
  CHECK(with({{"rope", {{"rope_type", "llama3"}, {"theta", 7}}}}, {{"rope", {{"type", "linear"}}}}) ==
        json{{"rope", {{"type", "linear"}, {"theta", 7}}}});
  CHECK(with_overrides("{ }\n", "", "config.json") == "{ }\n");
  CHECK_THROWS_AS((void)with_overrides("[]", R"({"a": 1})", "config.json"), InputError);
}

TEST_CASE("a model that is read with overrides computes by them, and says them in the config.json that is written") {
  const auto folder = kGoldenModels / "llama2";
  const std::string overrides = R"({"rope_theta":500,"rms_norm_eps":0.5})";
  const DecoderConfig config = read_decoder_config(folder, overrides);
  CHECK(config.ropes[0].theta == 500);
  CHECK(config.norm_eps == 0.5);
  const auto before = json::parse(read_file(folder / "config.json", 1 << 20));
  auto written = json::parse(read_model(folder, overrides)->config_json(folder));
  CHECK(written["rope_theta"] == 500);
  CHECK(written["rms_norm_eps"] == 0.5);
  written["rope_theta"] = before["rope_theta"];
  written["rms_norm_eps"] = before["rms_norm_eps"];
  CHECK(written == before);
  CHECK(json::parse(read_model(folder, overrides)->text()->with_vocab_size(100)->config_json(folder))["rope_theta"] ==
        500);
}

// Tests bounds on the memory and time of a tokenizer, whatever the text and its file.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "io/file.h"
#include "tests/support/peak_bytes.h"
#include "text/tokenizer.h"

using namespace spillway;
using nlohmann::json;
using testing::PeakBytes;
using text::Tokenizer;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/tokenizer";

json golden_json(const std::string& name) {
  return json::parse(read_file(kGolden / (name + ".json"), 1 << 24))["tokenizer"];
}

std::string repeated(std::string_view piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

// A vocabulary of symbols a to d, and merges of random tokens that are there already.
struct RandomBpe {
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  std::vector<std::pair<std::string, std::string>> merges;

  explicit RandomBpe(uint64_t seed) {
    RandomStream random(seed, 0);
    for (int i = 0; i < 40; ++i) {
      const auto pick = [&] { return tokens[random.below(static_cast<uint32_t>(tokens.size()))]; };
      const std::string left = pick(), right = pick();
      if (left.size() + right.size() > 12 || std::count(tokens.begin(), tokens.end(), left + right) > 0) continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
  }
  [[nodiscard]] Tokenizer tokenizer() const {
    json model = {{"type", "BPE"}, {"vocab", json::object()}, {"merges", json::array()}};
    for (size_t id = 0; id < tokens.size(); ++id) model["vocab"][tokens[id]] = id;
    for (const auto& [left, right] : merges) model["merges"].push_back({left, right});
    return Tokenizer::from_json(json{{"model", model}}.dump(), "", "");
  }
  // Encodes by the definition: the first merge that applies anywhere, at its leftmost place, again and again.
  [[nodiscard]] std::vector<int32_t> encode(const std::string& text) const {
    std::vector<std::string> symbols;
    for (const char c : text) symbols.emplace_back(1, c);
    for (size_t rank = 0; rank < merges.size();) {
      size_t at = 0;
      while (at + 1 < symbols.size() && std::pair(symbols[at], symbols[at + 1]) != merges[rank]) ++at;
      if (at + 1 >= symbols.size()) {
        ++rank;
        continue;
      }
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      rank = 0;
    }
    std::vector<int32_t> ids;
    for (const std::string& symbol : symbols)
      ids.push_back(static_cast<int32_t>(std::find(tokens.begin(), tokens.end(), symbol) - tokens.begin()));
    return ids;
  }
};

// Returns steps each of which doubles the text.
json doubling_steps(const char* type, int count) {
  json steps = json::array();
  for (int i = 0; i < count; ++i) {
    if (std::string_view(type) == "Replace") {
      steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
    } else {
      steps.push_back({{"type", type}, {"add_prefix_space", false}, {"use_regex", false}});
    }
  }
  return steps;
}

json byte_level() { return golden_json("gpt2"); }

void check_refused(const json& tokenizer, const std::string& text) {
  const std::string file = tokenizer.dump();
  const PeakBytes peak;
  const auto encode = [&] { return Tokenizer::from_json(file, "", "").encode(text, true); };
  CHECK_THROWS_WITH_AS((void)encode(), doctest::Contains("[tokenizer.json] expected"), InputError);
  CHECK(peak.bytes() < (int64_t{256} << 20));
}

}  // namespace

TEST_CASE("long words are merged as the definition of byte-pair encoding says") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const RandomBpe bpe(seed);
    const Tokenizer tokenizer = bpe.tokenizer();
    RandomStream random(seed, 1);
    for (const size_t size : {25, 32, 33, 64, 100, 257}) {
      std::string text;
      const uint32_t letters = 1 + random.below(4);
      for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + random.below(letters)));
      CHECK(tokenizer.encode(text, false) == bpe.encode(text));
    }
  }
}

TEST_CASE("a long text takes a small multiple of its bytes, and of its ids, whatever is in it") {
  constexpr size_t kBytes = size_t{1} << 19;
  const std::vector<std::string> texts = {repeated("The quick brown fox jumps over the lazy dog. ", kBytes),
                                          std::string(kBytes, 'a'), repeated("0123456789", kBytes),
                                          repeated("\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97", kBytes),
                                          repeated("a1,\n", kBytes)};
  for (const char* name : {"gpt2", "llama2", "llama3", "mistral", "bert", "t5", "xlm_r", "nfkc", "neox"}) {
    const Tokenizer tokenizer = Tokenizer::from_json(golden_json(name).dump(), "", "");
    for (const std::string& text : texts) {
      CAPTURE(name);
      CAPTURE(text.substr(0, 12));
      const PeakBytes peak;
      const size_t ids = tokenizer.encode(text, false).size();
      CHECK(peak.bytes() < static_cast<int64_t>(10 * text.size() + 12 * ids));
    }
  }
}

TEST_CASE("a tokenizer.json that doubles the text at each step is refused, with little memory") {
  json normalizer = byte_level();
  normalizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling_steps("Replace", 40)}};
  check_refused(normalizer, "a");
  normalizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling_steps("ByteLevel", 40)}};
  check_refused(normalizer, "\xC3\xA9");
  json words = byte_level();
  words["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", doubling_steps("ByteLevel", 40)}};
  check_refused(words, "\xC3\xA9");
  json long_content = byte_level();
  long_content["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", std::string(size_t{1} << 20, 'b')}};
  check_refused(long_content, std::string(1000, 'a'));
}

TEST_CASE("a decoder that doubles the text at each step is refused, and so are added tokens that grow so") {
  json decoder = byte_level();
  decoder["decoder"] = {{"type", "Sequence"}, {"decoders", doubling_steps("Replace", 40)}};
  const Tokenizer hostile = Tokenizer::from_json(decoder.dump(), "", "");
  const std::vector<int32_t> ids = hostile.encode("a", false);
  CHECK_THROWS_WITH_AS((void)hostile.decode(ids, false), doctest::Contains("[tokenizer.json] expected"), InputError);
  json added = byte_level();
  added["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling_steps("Replace", 40)}};
  added["added_tokens"].push_back({{"id", 50257}, {"content", "aaa"}, {"normalized", true}});
  CHECK_THROWS_WITH_AS((void)Tokenizer::from_json(added.dump(), "", ""), doctest::Contains("[tokenizer.json] expected"),
                       InputError);
}

TEST_CASE("steps that a published tokenizer has may still grow a text") {
  json growing = byte_level();
  growing["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       json::array(
           {{{"type", "NFKC"}}, {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}})}};
  const Tokenizer tokenizer = Tokenizer::from_json(growing.dump(), "", "");
  // U+FDFA is 18 characters in its normal form.
  CHECK(tokenizer.encode(repeated("\xEF\xB7\xBA", 100'000), false).size() > 100'000);
}

#include "infer/scoring/token_scorer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/sizes.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/deep_model.h"

using namespace spillway;
using namespace spillway::infer;
using namespace spillway::testing;

namespace {

constexpr int64_t kScoredTokens = 24, kScoredWords = 12;

// A text of so many tokens, all but the first of which are scored.
data::MicroBatch scored_text(int64_t tokens) {
  RandomStream random(static_cast<uint64_t>(tokens), 1);
  data::MicroBatch batch;
  for (int32_t i = 0; i < tokens; ++i) {
    batch.ids.push_back(static_cast<int32_t>(random.below(kScoredWords)));
    batch.labels.push_back(i + 1 < tokens ? static_cast<int32_t>(random.below(kScoredWords)) : data::kIgnoredLabel);
    batch.positions.push_back(i);
  }
  batch.seq_offsets = {0, static_cast<int32_t>(tokens)};
  return batch;
}

// Scores texts of the model as many at a time as `together` says.
struct Scored {
  std::vector<std::vector<float>> log_probs;
  int64_t together = 0;
};

Scored score_all(const std::filesystem::path& model, std::optional<int64_t> device_bytes, double bytes_per_second) {
  TokenScorerOptions options{.tokens = kScoredTokens, .max_sequences = 1, .budget = {.device_bytes = device_bytes}};
  options.budget.machine.link_bytes_per_second.fill(bytes_per_second);
  ThreadPool pool(1);
  TokenScorer scorer(read_inference_model(model, {}), options, pool);
  std::vector<data::MicroBatch> texts;
  for (int64_t tokens = 2; tokens <= kScoredTokens; ++tokens) texts.push_back(scored_text(tokens));
  Scored result{.together = scorer.together()};
  for (size_t first = 0; first < texts.size(); first += static_cast<size_t>(result.together)) {
    const auto count = std::min(result.together, std::ssize(texts) - static_cast<int64_t>(first));
    for (const TokenScores& one : scorer.score(subspan_of(texts, static_cast<int64_t>(first), count)))
      result.log_probs.push_back(one.log_probs);
  }
  return result;
}

// Sets all numbers of a tensor to about 3.4e38, which bf16 and f32 write with the same bytes.
void fill_with_largest(const std::filesystem::path& weights, std::string_view tensor) {
  std::string file = read_file(weights, int64_t{1} << 26);
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  const auto offsets = nlohmann::json::parse(file.substr(8, header))[std::string(tensor)]["data_offsets"];
  const size_t begin = offsets[0], end = offsets[1];
  std::fill(file.begin() + static_cast<int64_t>(8 + header + begin),
            file.begin() + static_cast<int64_t>(8 + header + end), '\x7f');
  write_file(weights, file);
}

}  // namespace

TEST_CASE("scores of logits that are no numbers are an error") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 4);
  fill_with_largest(folder.path() / "model.safetensors", "model.norm.weight");
  CHECK_THROWS_WITH((void)score_all(folder.path(), {}, 1e9),
                    doctest::Contains("expected logits that are numbers, got NaN"));
}

TEST_CASE("texts are scored layer by layer where reading weights takes longer than computing, with the same bits") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 64);
  const Scored alone = score_all(folder.path(), {}, 1e9);
  CHECK(alone.together == 1);
  const auto half = static_cast<int64_t>(std::filesystem::file_size(folder.path() / "model.safetensors")) / 2;
  const Scored slow = score_all(folder.path(), half, 1e5);
  CHECK(slow.together > 1);  // the last run has fewer texts
  CHECK(slow.log_probs.size() % static_cast<size_t>(slow.together) != 0);
  CHECK(slow.log_probs == alone.log_probs);
  CHECK(score_all(folder.path(), half, 1e15).together == 1);
  CHECK(score_all(folder.path(), half, 0).log_probs == alone.log_probs);  // of a disk that was never measured
}

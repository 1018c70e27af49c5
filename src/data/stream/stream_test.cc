#include <doctest/doctest.h>

#include <algorithm>

#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "data/stream/batch_stream.h"
#include "io/file.h"
#include "tests/support/no_threads.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// A file of tokenised rows: the n-th is n twice, or as often as `lengths` says.
class Data {
 public:
  DatasetConfig dataset(const std::string& name, int32_t first, int32_t rows, int32_t lengths = 1) {
    std::string text;
    for (int32_t n = first; n < first + rows; ++n)
      text += Json{{"input_ids", std::vector<int32_t>(static_cast<size_t>(2 + n % lengths), n)}}.dump() + "\n";
    DatasetConfig config;
    config.path = (folder_.path() / name).string();
    config.ds_type = "json";
    config.type = {.given = true, .name = ""};
    write_file(config.path, text);
    return config;
  }

 private:
  TemporaryFolder folder_;
};

// Ids below 100,000.
std::shared_ptr<const text::Tokenizer> any_tokenizer() {
  return std::make_shared<const text::Tokenizer>(text::Tokenizer::from_json(
      R"({"model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "v": 99999}}})", "{}", "test"));
}

std::shared_ptr<const StreamSource> source_of(std::vector<DatasetConfig> datasets, StreamOptions options) {
  return std::make_shared<StreamSource>(std::move(datasets), std::move(options), any_tokenizer());
}

StreamOptions stream_options(int64_t buffer, int64_t block, int64_t lines = 1) {
  StreamOptions options{.shuffle = {.records = buffer, .seed = 7}, .block_records = block, .threads = 2};
  options.rows.sequence_len = options.batches.sequence_len = 16;
  options.batches.rows = lines;
  options.batches.order = RowOrder::kFile;
  return options;
}

// The first id of each of so many lines.
std::vector<int32_t> stream_numbers(RowStream& stream, size_t count) {
  std::vector<int32_t> numbers;
  while (numbers.size() < count) {
    const RowBlock block = stream.next();
    for (int64_t i = 0; i < block.lines.size(); ++i) numbers.push_back(block.rows.ids(block.lines.line(i)[0])[0]);
  }
  numbers.resize(count);
  return numbers;
}

std::vector<int32_t> sorted(std::vector<int32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<int32_t> run(int32_t first, int32_t count) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

TEST_CASE("a stream without a buffer has the datasets one after the other, again and again") {
  Data data;
  const auto source = source_of({data.dataset("a", 0, 5), data.dataset("b", 10, 3)}, stream_options(0, 3));
  RowStream stream(source);
  CHECK(stream_numbers(stream, 12) == std::vector<int32_t>{0, 1, 2, 3, 4, 10, 11, 12, 0, 1, 2, 3});
}

TEST_CASE("a buffer shuffles as far as it reaches, each epoch in another order, whatever the threads") {
  Data data;
  const std::vector<DatasetConfig> datasets = {data.dataset("a", 0, 200)};
  StreamOptions options = stream_options(20, 50);
  RowStream stream(source_of(datasets, options));
  const std::vector<int32_t> first = stream_numbers(stream, 200), second = stream_numbers(stream, 200);
  CHECK(first != run(0, 200));
  CHECK(sorted(first) == run(0, 200));
  CHECK(sorted(second) == run(0, 200));
  CHECK(first != second);
  for (int32_t i = 0; i < 200; ++i) CHECK(nth(first, i) < i + 20);
  options.threads = 1;
  RowStream again(source_of(datasets, options));
  CHECK(stream_numbers(again, 200) == first);
  options.shuffle.bytes = 1;  // large records: a buffer of one
  RowStream large(source_of(datasets, options));
  CHECK(stream_numbers(large, 200) == run(0, 200));
}

TEST_CASE("a block is packed by itself, and ends early where its records are large") {
  Data data;
  StreamOptions options = stream_options(0, 6);
  options.rows.packing = options.batches.packing = PackingStrategy::kFirstFit;
  const std::vector<DatasetConfig> datasets = {data.dataset("a", 0, 9)};
  RowStream stream(source_of(datasets, options));
  RowBlock block = stream.next();  // six rows of two tokens
  CHECK(block.lines.size() == 1);
  CHECK(block.lines.line(0).size() == 6);
  block = stream.next();
  CHECK(block.lines.line(0).size() == 3);
  CHECK(block.first == StreamPosition{0, 1, 0});
  CHECK(max_bytes(stream_options(10000, 10000)) == int64_t{576} << 20);
  CHECK(max_bytes(options) == int64_t{320} << 20);
  options.block_bytes = 1;
  RowStream small(source_of(datasets, options));
  CHECK(small.next().rows.size() == 1);
}

TEST_CASE("micro-batches go on across blocks and epochs, and from any position to the same bits") {
  Data data;
  for (const bool packs : {false, true}) {
    CAPTURE(packs);
    StreamOptions options = stream_options(16, 13, 3);
    if (packs) {
      options.rows.packing = options.batches.packing = PackingStrategy::kFirstFit;
      options.batches.order = RowOrder::kShuffled;
    }
    const auto source = source_of({data.dataset("a", 0, 40, 7), data.dataset("b", 50, 31, 5)}, options);
    BatchStream whole(source, {}, 4);
    std::vector<MicroBatch> batches;
    std::vector<StreamPosition> positions;
    for (int i = 0; i < 60; ++i) {
      positions.push_back(whole.position());
      batches.push_back(whole.next());
      CHECK(batches.back().targets > 0);
    }
    CHECK(positions.back().epoch > 0);
    for (size_t from = 0; from < positions.size(); from += 7) {
      CAPTURE(from);
      BatchStream resumed(source, positions[from], 2);
      for (size_t i = from; i < batches.size(); ++i) {
        const MicroBatch batch = resumed.next();
        CHECK(batch.ids == batches[i].ids);
        CHECK(batch.labels == batches[i].labels);
        CHECK(batch.positions == batches[i].positions);
        CHECK(batch.seq_offsets == batches[i].seq_offsets);
        CHECK(batch.targets == batches[i].targets);
      }
    }
  }
}

TEST_CASE("a stream goes on with rows that came behind, and not with others than it has seen") {
  Data data;
  const StreamOptions options = stream_options(16, 13, 3);
  const auto source = source_of({data.dataset("a", 0, 80)}, options);
  BatchStream stream(source, {}, 1);
  for (int i = 0; i < 6; ++i) (void)stream.next();
  const StreamPosition position = stream.position();
  REQUIRE(position.block == 1);
  const MicroBatch next = stream.next();
  const auto resumed = [&](const DatasetConfig& dataset, const StreamPosition& from) {
    BatchStream other(source_of({dataset}, options), from, 1);
    return other.next().ids;
  };
  CHECK(resumed(data.dataset("longer", 0, 120), position) == next.ids);
  CHECK_THROWS_WITH_AS((void)resumed(data.dataset("others", 1, 80), position),
                       doctest::Contains("got others; resume with the data"), InputError);
  StreamPosition old = position;  // of a checkpoint that did not say
  old.rows_checksum.clear();
  CHECK(resumed(data.dataset("others", 1, 80), old) != next.ids);
}

TEST_CASE("a stream reads no further ahead than its queue, its block and the next") {
  Data data;
  StreamOptions options = stream_options(100, 50, 2);
  std::atomic<int64_t> rows = 0;
  options.inspect = [&rows](const RowTable& block) { rows += block.size(); };
  const auto source = source_of({data.dataset("a", 0, 20000)}, options);
  BatchStream stream(source, {}, 3);
  for (int i = 0; i < 10; ++i) (void)stream.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  // 13 micro-batches of two rows and the one that waits for room lie in the first block.
  CHECK(rows <= 100);
}

TEST_CASE("a stream ends while it reads a block, or reads over blocks") {
  Data data;
  const auto source = source_of({data.dataset("a", 0, 20000)}, stream_options(100, 20000));
  const std::atomic<bool> stop = true;
  CHECK_THROWS_AS(RowStream(source, {0, 1, 0}, &stop), StreamStopped);
  RowStream stream(source, {}, &stop);
  CHECK_THROWS_AS((void)stream.next(), StreamStopped);
  BatchStream never_asked(source, {}, 1);  // its end does not wait for the block
}

TEST_CASE("a stream goes on where the system starts no more threads, and says where it cannot begin") {
  Data data;
  const auto source = source_of({data.dataset("a", 0, 40, 7)}, stream_options(16, 5));
  BatchStream usual(source, {}, 1), stream(source, {}, 1);
  CHECK(stream.next().ids == usual.next().ids);  // from here on both have their workers
  std::vector<MicroBatch> batches;
  for (int i = 0; i < 60; ++i) batches.push_back(usual.next());
  const testing::NoThreads limit;
  for (const MicroBatch& batch : batches) CHECK(stream.next().ids == batch.ids);
  CHECK_THROWS_AS(BatchStream(source, {}, 1), MachineError);
}

TEST_CASE("what is wrong with a row comes when it is reached, and data without rows are refused") {
  Data data;
  DatasetConfig broken = data.dataset("broken", 0, 4);
  std::ofstream(broken.path, std::ios::app) << "{\"input_ids\": \"x\"}\n";
  BatchStream stream(source_of({broken}, stream_options(0, 2)), {}, 1);
  for (int i = 0; i < 4; ++i) CHECK(stream.next().ids == std::vector<int32_t>{i, i});
  CHECK_THROWS_WITH_AS((void)stream.next(), doctest::Contains("broken:5"), InputError);

  RowStream none(source_of({data.dataset("empty", 0, 0)}, stream_options(0, 2)));
  CHECK_THROWS_WITH_AS((void)none.next(), doctest::Contains("expected at least one row"), InputError);
  DatasetConfig absent = broken;
  absent.path += ".nosuch";
  CHECK_THROWS_AS((void)source_of({absent}, stream_options(0, 2)), InputError);
  const auto short_data = source_of({data.dataset("short", 0, 4)}, stream_options(0, 2));
  CHECK_THROWS_WITH_AS(RowStream(short_data, {0, 9, 0}), doctest::Contains("expected at least the 9 blocks"),
                       InputError);
  BatchStream shrunk(short_data, {0, 0, 3}, 1);
  CHECK_THROWS_WITH_AS((void)shrunk.next(), doctest::Contains("expected at least the 3 lines"), InputError);
}

namespace {

// The goldens' tokenizer, or one that marks texts in another way.
std::shared_ptr<const text::Tokenizer> golden_tokenizer(const std::filesystem::path& golden,
                                                        const Json& post_processor) {
  if (post_processor.is_null()) return std::make_shared<const text::Tokenizer>(text::Tokenizer::load(golden));
  Json tokenizer = Json::parse(read_file(golden / "tokenizer.json", int64_t{1} << 20));
  tokenizer["post_processor"] = post_processor;
  return std::make_shared<const text::Tokenizer>(text::Tokenizer::from_json(
      tokenizer.dump(), read_file(golden / "tokenizer_config.json", int64_t{1} << 20), "golden"));
}

PretrainText pretrain_text_of(const Json& golden) {
  if (golden.value("windows", false)) return PretrainText::kWindows;
  return golden.at("joined").get<bool>() ? PretrainText::kJoined : PretrainText::kStarts;
}

}  // namespace

TEST_CASE("texts to pretrain on become the rows that axolotl makes of them") {
  const std::filesystem::path golden = SPILLWAY_SOURCE_DIR "/tests/golden/rows";
  const TemporaryFolder folder;
  const Json cases = Json::parse(read_file(golden / "streams.json", int64_t{1} << 20));
  for (const Json& one : cases["texts"]) {
    CAPTURE(one["sequence_len"].dump());
    CAPTURE(one.value("joined", false));
    std::string lines;
    for (const Json& text : one["texts"]) lines += Json{{"body", text}}.dump() + "\n";
    DatasetConfig config;
    config.path = (folder.path() / "texts.jsonl").string();
    config.type = {.given = true, .name = "pretrain"};
    config.text_column = "body";
    write_file(config.path, lines);
    StreamOptions options{.block_records = std::ssize(one["texts"])};
    options.rows.sequence_len = options.batches.sequence_len = one["sequence_len"];
    options.rows.min_sample_len = 1;
    options.rows.pretrain_text = pretrain_text_of(one);
    options.batches.order = RowOrder::kFile;
    RowStream stream(std::make_shared<StreamSource>(std::vector<DatasetConfig>{config}, options,
                                                    golden_tokenizer(golden, one.value("post_processor", Json()))));
    const RowBlock block = stream.next();
    REQUIRE(block.lines.size() == std::ssize(one["rows"]));
    for (int64_t i = 0; i < block.lines.size(); ++i) {
      const Json& expected = nth(one["rows"], i);
      const auto ids = block.rows.ids(block.lines.line(i)[0]), labels = block.rows.labels(block.lines.line(i)[0]);
      CHECK(std::vector<int32_t>(ids.begin(), ids.end()) == expected["input_ids"].get<std::vector<int32_t>>());
      CHECK(std::vector<int32_t>(labels.begin(), labels.end()) == expected["labels"].get<std::vector<int32_t>>());
    }
  }
}

TEST_CASE("a pass over texts to pretrain on packs the sequences that axolotl packs, and all of each text") {
  const std::filesystem::path golden = SPILLWAY_SOURCE_DIR "/tests/golden/rows";
  const TemporaryFolder folder;
  const Json cases = Json::parse(read_file(golden / "streams.json", int64_t{1} << 20));
  REQUIRE(cases["packed"].size() >= 3);
  for (const Json& one : cases["packed"]) {
    CAPTURE(one["sequence_len"].dump());
    std::string lines;
    for (const Json& text : one["texts"]) lines += Json{{"text", text}}.dump() + "\n";
    DatasetConfig config;
    config.path = (folder.path() / "texts.jsonl").string();
    config.type = {.given = true, .name = "pretrain"};
    write_file(config.path, lines);
    StreamOptions options{.block_records = std::ssize(one["texts"])};
    options.rows.sequence_len = options.batches.sequence_len = one["sequence_len"];
    options.rows.packing = options.batches.packing = PackingStrategy::kFirstFit;
    options.batches.line_rows = one["bin_size"];
    RowStream stream(
        std::make_shared<StreamSource>(std::vector<DatasetConfig>{config}, options, golden_tokenizer(golden, Json())));
    const RowBlock block = stream.next();
    std::vector<std::vector<int32_t>> sequences;
    for (int64_t i = 0; i < block.lines.size(); ++i) {
      CHECK(count_tokens(block.lines.line(i)) <= options.rows.sequence_len);
      CHECK(std::ssize(block.lines.line(i)) <= options.batches.line_rows);
      for (const Piece& piece : block.lines.line(i)) {
        const auto ids = block.rows.ids(piece), labels = block.rows.labels(piece);
        CHECK(std::equal(ids.begin(), ids.end(), labels.begin()));
        sequences.emplace_back(ids.begin(), ids.end());
      }
    }
    std::sort(sequences.begin(), sequences.end());
    CHECK(Json(sequences) == one["sequences"]);
  }
}

}  // namespace spillway::data

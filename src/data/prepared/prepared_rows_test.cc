#include "data/prepared/prepared_rows.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/local_time.h"
#include "base/temporary_folder.h"
#include "data/prepared/identity.h"
#include "data/rows/row_collector.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::data;

namespace fs = std::filesystem;

namespace {

// Makes two rows and counts how often it is asked to.
struct Source {
  int reads = 0;

  PreparedRows prepare(const fs::path& base, std::string_view identity = "rows") {
    return prepare_rows(base, identity, kTextColumns, [&](RowSink& sink) {
      ++reads;
      RowCollector collector({}, sink);
      collector.add({{5, 6, 7}, {5, -100, 7}}, "");
      collector.add({{8, 9}, {8, 11}}, "");
      return collector.summary();
    });
  }
};

void change_byte(const fs::path& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const int byte = file.get();
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 1));
}

}  // namespace

TEST_CASE("prepared rows come back as they were, without being prepared again") {
  const TemporaryFolder folder;
  Source source;
  const PreparedRows first = source.prepare(folder.path()), second = source.prepare(folder.path());
  CHECK(source.reads == 1);
  CHECK(!first.reused);
  CHECK(second.reused);
  CHECK(first.folder == second.folder);
  const RowTable& rows = second.dataset.rows;
  REQUIRE(rows.size() == 2);
  CHECK(rows.largest_id() == 11);  // a label
  const auto ids = rows.ids(rows.row(1)), labels = rows.labels(rows.row(0));
  CHECK(std::vector(ids.begin(), ids.end()) == std::vector<int32_t>{8, 9});
  CHECK(std::vector(labels.begin(), labels.end()) == std::vector<int32_t>{5, -100, 7});
  CHECK(to_json(second.dataset.summary) == to_json(first.dataset.summary));
  CHECK(second.dataset.summary.tokens == 5);
  (void)source.prepare(folder.path(), "other rows");
  CHECK(source.reads == 2);
}

TEST_CASE("rows have one checksum in memory and on disk, and other rows or a part of them another") {
  const TemporaryFolder folder;
  Source source;
  const RowTable prepared = source.prepare(folder.path()).dataset.rows;
  const std::vector<Row> rows = {{{5, 6, 7}, {5, -100, 7}}, {{8, 9}, {8, 11}}};
  const std::string sum = prepared.checksum();
  CHECK(RowTable(rows).checksum() == sum);
  std::vector<Row> other_label = rows;
  other_label[1].labels[1] = 12;
  const std::vector<Row> other_border = {{{5, 6}, {5, -100}}, {{7, 8, 9}, {7, 8, 11}}};
  CHECK(RowTable(other_label).checksum() != sum);
  CHECK(RowTable(other_border).checksum() != sum);
  CHECK(prepared.select({1, 0}).checksum() != sum);
  CHECK(prepared.select({1, 0}).checksum() == RowTable(rows).select({1, 0}).checksum());
}

TEST_CASE("rows that are damaged on disk are noticed, told and prepared again") {
  const TemporaryFolder folder;
  Source source;
  const fs::path made = source.prepare(folder.path()).folder;
  int reads = 1;
  const auto check_made_again = [&] {
    CHECK(!source.prepare(folder.path()).reused);
    CHECK(source.reads == ++reads);
    CHECK(source.prepare(folder.path()).reused);
  };
  for (const char* name : {"ids.bin", "labels.bin", "offsets.bin"}) {
    CAPTURE(name);
    change_byte(made / name, 3);
    check_made_again();
    fs::resize_file(made / name, 4);
    check_made_again();
    fs::remove(made / name);
    check_made_again();
  }
  for (const char* text :
       {"", "{", "[]", "{\"format\": 4}", "{\"format\": 4, \"made_from\": \"rows\", \"files\": 3}"}) {
    CAPTURE(text);
    write_file(made / "prepared.json", text);
    check_made_again();
  }
  for (const auto& [written, other] : {std::pair{"\"largest_id\": 11", "\"largest_id\": 1"},
                                       {"\"rows\": 2", "\"rows\": 3"},
                                       {"\"tokens\": 5", "\"tokens\": 4"}}) {
    CAPTURE(other);
    std::string index = read_file(made / "prepared.json", int64_t{1} << 20);
    REQUIRE(index.find(written) != std::string::npos);
    write_file(made / "prepared.json", index.replace(index.find(written), std::string_view(written).size(), other));
    check_made_again();
  }
}

TEST_CASE("rows that could not be made leave nothing behind") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS((void)prepare_rows(folder.path() / "base", "rows", kTextColumns,
                                     [](RowSink& sink) -> DatasetSummary {
                                       sink.add({{1, 2}, {1, 2}});
                                       throw input_error("data.jsonl:7", "expected a row, got none; correct it");
                                     }),
                  InputError);
  CHECK((!fs::exists(folder.path() / "base") || fs::is_empty(folder.path() / "base")));
}

TEST_CASE("runs that prepare the same rows at the same time use those of the first to finish") {
  const TemporaryFolder folder;
  Source other;
  fs::path others;
  const auto prepare = [&](bool damage) {
    return prepare_rows(folder.path(), "rows", kTextColumns, [&](RowSink& sink) {
      others = other.prepare(folder.path()).folder;
      if (damage) fs::resize_file(others / "ids.bin", 4);
      RowCollector collector({}, sink);
      collector.add({{5, 6, 7}, {5, -100, 7}}, "");
      collector.add({{8, 9}, {8, 11}}, "");
      return collector.summary();
    });
  };
  const PreparedRows mine = prepare(false);
  CHECK(mine.reused);
  CHECK(mine.folder == others);
  CHECK(mine.dataset.rows.size() == 2);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  fs::remove_all(others);
  CHECK(!prepare(true).reused);
  CHECK(other.prepare(folder.path()).reused);
}

TEST_CASE("what a killed run left of other rows goes when rows are prepared") {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    (void)prepare_rows(folder.path(), "rows before the data changed", kTextColumns,
                       [](RowSink& sink) -> DatasetSummary {
                         sink.add({{1, 2}, {1, 2}});
                         ::raise(SIGKILL);
                         return {};
                       });
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(!fs::is_empty(folder.path()));
  Source source;
  const PreparedRows rows = source.prepare(folder.path());
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  CHECK(fs::exists(rows.folder));
}

TEST_CASE("what changes the rows changes their identity") {
  const TemporaryFolder folder;
  const fs::path data = folder.path() / "data.jsonl", tokenizer = folder.path() / "model";
  fs::create_directory(tokenizer);
  write_file(data, "{\"text\": \"a\"}\n");
  write_file(tokenizer / "tokenizer.json", "{}");
  DatasetConfig config;
  config.path = data.string();
  RowOptions options;
  text::SpecialTokenNames special;
  const auto identity = [&] { return rows_identity(std::span(&config, 1), options, tokenizer, special); };
  const std::string before = identity();
  CHECK(identity() == before);
  options.packing = PackingStrategy::kBfdSplit;
  const std::string packed = identity();
  CHECK(packed != before);
  options.packing = PackingStrategy::kWrapped;
  CHECK(identity() == packed);
  options.packing = PackingStrategy::kBfd;
  CHECK(identity() == before);  // with axolotl's rule, it takes the rows that are not packed
  options.length_rules = LengthRules::kTrl;
  const std::string cut = identity();
  options.packing = PackingStrategy::kBfdSplit;
  CHECK(identity() != cut);
  options.length_rules = LengthRules::kAxolotl;
  options.packing.reset();
  options.sequence_len = 7;
  CHECK(identity() != before);
  options = {};
  config.roles["user"] = {"human"};
  CHECK(identity() != before);
  config.roles.clear();
  special.eos_token = "<end>";
  CHECK(identity() != before);
  special = {};
  CHECK(identity() == before);
  write_file(tokenizer / "tokenizer.json", "{ }");
  CHECK(identity() != before);
  write_file(tokenizer / "tokenizer.json", "{}");
  write_file(data, "{\"text\": \"ab\"}\n");
  CHECK(identity() != before);
}

TEST_CASE("a file of the same size, whose time was set back, is another one") {
  const TemporaryFolder folder;
  const fs::path data = folder.path() / "data.jsonl";
  write_file(data, "{\"text\": \"alpha\"}\n");
  DatasetConfig config;
  config.path = data.string();
  const auto identity = [&] { return rows_identity(std::span(&config, 1), {}, folder.path(), {}); };
  const std::string before = identity();
  const auto modified = fs::last_write_time(data);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // more than a tick of the kernel's clock
  write_file(data, "{\"text\": \"gamma\"}\n");
  fs::last_write_time(data, modified);
  CHECK(identity() != before);
}

TEST_CASE("rows are of their date where a template shows it, of their time where it shows that, else of none") {
  const TemporaryFolder folder;
  const fs::path data = folder.path() / "data.jsonl";
  write_file(data, "{}\n");
  const fs::path model = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/rows";
  const text::Tokenizer tokenizer = text::Tokenizer::load(model);
  DatasetConfig config;
  config.path = data.string();
  config.type = {true, "chat_template"};
  RowOptions options;
  options.now = time_from_text("2026-11-22T18:57:03");
  const auto time = [&](const std::string& source) {
    config.chat_template_jinja = source;
    return time_in_rows(std::span(&config, 1), options, tokenizer);
  };
  CHECK(time("{% for m in messages %}{{ m.content }}{% endfor %}").empty());
  CHECK(time("{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}") == "2026-11-22");
  CHECK(time("{{ strftime_now('%d %H:00') }}") == "2026-11-22T18:57:03");
  config.type = {true, "alpaca"};
  CHECK(time("{{ strftime_now('%d %b %Y') }}").empty());
  const auto identity = [&](std::string_view at) {
    return rows_identity(std::span(&config, 1), options, model, {}, at);
  };
  CHECK(identity("2026-11-22") == identity("2026-11-22"));
  CHECK(identity("2026-11-22") != identity("2026-11-23"));
  CHECK(identity("2026-11-22") != identity(""));
}

#include "data/files/dataset_files.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/files/arrow_loader.h"
#include "data/files/dataset_records.h"
#include "data/files/record_reader.h"
#include "data/files/split_files.h"
#include "data/files/split_slice.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kFilesGolden = SPILLWAY_SOURCE_DIR "/tests/golden/files";

struct FilesFolder : TemporaryFolder {
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << text;
    return path() / name;
  }
};

DatasetConfig files_dataset(const fs::path& path, const std::string& split = "train") {
  DatasetConfig config;
  config.path = path.string();
  config.split = split;
  return config;
}

Json rows_of_files(const DatasetConfig& config) {
  RecordReader reader = open_dataset(config);
  Json rows = Json::array();
  Record record;
  while (reader.next(record)) rows.push_back(record.fields);
  return rows;
}

// The values of column `n`, joined.
std::string numbers_of(const DatasetConfig& config) {
  std::string text;
  for (const Json& row : rows_of_files(config)) text += (text.empty() ? "" : " ") + row["n"].dump();
  return text;
}

std::string files_error(const DatasetConfig& config) {
  try {
    (void)rows_of_files(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string numbered(int begin, int end) {
  std::string lines;
  for (int i = begin; i < end; ++i) lines += Json{{"n", i}}.dump() + "\n";
  return lines;
}

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// As CMake knows it: where the library was built, a program that does not load it is wrong.
constexpr bool kReadsArrow = SPILLWAY_HAS_ARROW != 0;

}  // namespace

TEST_CASE("a dataset that evaluates and names no split is its split test, or the only one") {
  const FilesFolder folder;
  const auto split_of = [](const fs::path& path) { return slices_of(files_dataset(path, "")).front().split; };
  const fs::path file = folder.write("two/train.jsonl", "{}");
  CHECK(split_of(file) == "train");
  CHECK(split_of(folder.path() / "two") == "train");
  folder.write("two/validation.jsonl", "{}");
  CHECK_THROWS_WITH_AS((void)split_of(folder.path() / "two"), doctest::Contains("(train, validation), got 'test'"),
                       InputError);
  folder.write("two/test.jsonl", "{}");
  CHECK(split_of(folder.path() / "two") == "test");
  CHECK(dataset_files(files_dataset(folder.path() / "two", "")) ==
        std::vector<fs::path>{folder.path() / "two/test.jsonl"});
}

TEST_CASE("slices of a split are those of the datasets library") {
  int compared = 0;
  for (const Json& c : read_json(kFilesGolden / "splits.json")) {
    CAPTURE(c.dump());
    if (c["ranges"].is_null()) {
      CHECK_THROWS_AS(
          [&] {
            for (const SplitSlice& slice : parse_split(c["split"].get<std::string>())) (void)slice.range(c["rows"]);
          }(),
          InputError);
      continue;
    }
    const std::vector<SplitSlice> slices = parse_split(c["split"].get<std::string>());
    REQUIRE(slices.size() == c["ranges"].size());
    for (size_t i = 0; i < slices.size(); ++i) {
      const int64_t rows = c["rows"];
      const auto [begin, end] = slices[i].range(rows);
      const Json& expected = c["ranges"][i];
      CHECK(begin == (expected[0].is_null() ? 0 : expected[0].get<int64_t>()));
      CHECK(end == (expected[1].is_null() ? rows : expected[1].get<int64_t>()));
    }
    ++compared;
  }
  CHECK(compared > 20);
  for (const char* broken : {"", "train[", "train[5]", "train[a:b]", "train[:200%]", "a b", "train+", "tr/ain"})
    CHECK_THROWS_AS((void)parse_split(broken), InputError);
}

TEST_CASE("compressed files give the rows that plain ones do") {
  const Json plain = rows_of_files(files_dataset(kFilesGolden / "rows.jsonl"));
  CHECK(plain.size() == 5);
  CHECK(rows_of_files(files_dataset(kFilesGolden / "rows.jsonl.gz")) == plain);
  CHECK(rows_of_files(files_dataset(kFilesGolden / "rows.jsonl.zst")) == plain);
}

TEST_CASE("compressed data that is broken or cut short is an error") {
  const FilesFolder folder;
  for (const char* name : {"rows.jsonl.gz", "rows.jsonl.zst"}) {
    std::ifstream file(kFilesGolden / name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    CHECK(files_error(files_dataset(folder.write(name, bytes.substr(0, bytes.size() - 9)))) != "no error");
    std::string broken = bytes;
    for (size_t i = 20; i < 60; ++i) broken[i] = static_cast<char>(~broken[i]);
    CHECK(files_error(files_dataset(folder.write(name, broken))).find("make or download the file again") !=
          std::string::npos);
  }
}

TEST_CASE("a row that decompresses without end is refused in bounded memory") {
  const FilesFolder folder;
  const std::string mebibytes(size_t{32} << 20, 'x');
  std::string packed(ZSTD_compressBound(mebibytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), mebibytes.data(), mebibytes.size(), 1));
  std::string frames;
  for (int i = 0; i < 32; ++i) frames += packed;
  CHECK(files_error(files_dataset(folder.write("x.txt.zst", frames))).find("a row of at most 256 MiB") !=
        std::string::npos);
}

TEST_CASE("Parquet and Arrow files give the rows that pyarrow wrote" * doctest::skip(!kReadsArrow)) {
  const Json rows = rows_of_files(files_dataset(kFilesGolden / "rows.jsonl"));
  for (const char* name : {"rows.parquet", "snappy.parquet", "rows.arrow", "file.arrow"}) {
    CAPTURE(name);
    CHECK(rows_of_files(files_dataset(kFilesGolden / name)) == rows);
  }
  const Json others = rows_of_files(files_dataset(kFilesGolden / "others.parquet")),
             expected = read_json(kFilesGolden / "others.json");
  REQUIRE(others.size() == expected.size());
  for (size_t i = 0; i < others.size(); ++i) CHECK(others[i] == expected[i]);
}

TEST_CASE("a row of Arrow that is small in the file and large as JSON is refused in bounded memory" *
          doctest::skip(!kReadsArrow)) {
  const std::string error = files_error(files_dataset(kFilesGolden / "nulls.arrow"));
  CHECK(error.find("row 1] expected a row of at most 256 MiB") != std::string::npos);
}

TEST_CASE("a build without Arrow says how to get it" * doctest::skip(kReadsArrow)) {
  CHECK(files_error(files_dataset(kFilesGolden / "rows.parquet"))
            .find("got one without; run tools/install_dependencies arrow") != std::string::npos);
}

TEST_CASE("a library of Arrow's that cannot be loaded is an error that says what the dynamic loader said") {
  const FilesFolder folder;
  CHECK(!load_arrow(folder.path() / "none.so"));
  const auto load = [&](const std::string& name, const std::string& content) {
    (void)load_arrow(folder.write(name, content));
  };
  CHECK_THROWS_WITH_AS(load("short.so", "ELF"), doctest::Contains("file too short"), MachineError);
  CHECK_THROWS_WITH_AS(load("text.so", std::string(4096, 'x')), doctest::Contains("invalid ELF header"), MachineError);
  CHECK_THROWS_WITH_AS(load("text.so", "x"), doctest::Contains("build again, or convert the file to .jsonl"),
                       MachineError);
}

// Arrow's I/O thread may let go of a file's last buffer after the reader is gone; AddressSanitizer saw it.
TEST_CASE("a reader of an Arrow file may go at any time" * doctest::skip(!kReadsArrow)) {
  for (int i = 0; i < 400; ++i) CHECK(!rows_of_files(files_dataset(kFilesGolden / "file.arrow")).empty());
}

TEST_CASE("a Parquet or Arrow file that is none is an error" * doctest::skip(!kReadsArrow)) {
  const FilesFolder folder;
  for (const char* name : {"rows.parquet", "rows.arrow"}) {
    CHECK(files_error(files_dataset(folder.write(name, "PAR1 but no more"))).find("make or download it again") !=
          std::string::npos);
    std::ifstream file(kFilesGolden / name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    for (size_t size : {size_t{0}, bytes.size() / 3, bytes.size() / 2}) {
      const std::string error = files_error(files_dataset(folder.write(name, bytes.substr(0, size))));
      CHECK((error == "no error" || error.starts_with("[")));
    }
  }
}

TEST_CASE("what save_to_disk left is read by split" * doctest::skip(!kReadsArrow)) {
  const Json rows = rows_of_files(files_dataset(kFilesGolden / "rows.jsonl"));
  CHECK(rows_of_files(files_dataset(kFilesGolden / "saved")).size() == 3);
  CHECK(rows_of_files(files_dataset(kFilesGolden / "saved", "test"))[0] == rows[3]);
  CHECK(rows_of_files(files_dataset(kFilesGolden / "saved" / "train"))[2] == rows[2]);
  CHECK(files_error(files_dataset(kFilesGolden / "saved" / "train", "test")).find("has (train), got 'test'") !=
        std::string::npos);
  CHECK(files_error(files_dataset(kFilesGolden / "saved", "other")).find("expected a split that") != std::string::npos);
}

TEST_CASE("files of a folder are found by split") {
  const FilesFolder folder;
  folder.write("train-1.jsonl", numbered(2, 4));
  folder.write("my.train.jsonl", numbered(0, 2));
  folder.write("dev.jsonl", numbered(4, 5));
  folder.write("trainer.jsonl", numbered(8, 9));
  folder.write(".train.jsonl", numbered(9, 10));
  folder.write("dataset_info.json", "{}");
  CHECK(numbers_of(files_dataset(folder.path())) == "0 1 2 3");
  CHECK(numbers_of(files_dataset(folder.path(), "validation")) == "4");
  CHECK(numbers_of(files_dataset(folder.path(), "train[1:3]+validation")) == "1 2 4");
  CHECK(files_error(files_dataset(folder.path(), "test")).find("(train, validation), got 'test'") != std::string::npos);
  folder.write("sub/eval/x.jsonl", numbered(5, 6));
  CHECK(numbers_of(files_dataset(folder.path(), "test")) == "5");
  CHECK(files_error(files_dataset(folder.path())).find("(test), got 'train'") != std::string::npos);
  folder.write("data/train-00000-of-00002.jsonl", numbered(6, 7));
  folder.write("data/train-00001-of-00002.jsonl", numbered(7, 8));
  CHECK(numbers_of(files_dataset(folder.path())) == "6 7");
}

TEST_CASE("of files of several kinds in a folder, the datasets library reads the most common kind, and so it is here") {
  const FilesFolder folder;
  const auto first = folder.write("licensed/data.jsonl", "{\"n\": 1}\n").parent_path();
  folder.write("licensed/LICENSE.txt", "one\ntwo\n");
  CHECK(numbers_of(files_dataset(first)) == "1");
  folder.write("licensed/b.csv", "n\n5\n");
  CHECK(numbers_of(files_dataset(first)) == "1");  // of as many, .jsonl comes before .csv
  folder.write("licensed/c.csv", "n\n7\n");
  CHECK(numbers_of(files_dataset(first)) == R"("5" "7")");
  folder.write("licensed/more/a.json", "[{\"n\": 2}]");
  folder.write("licensed/more/b.jsonl", "{\"n\": 3}\n");
  CHECK(numbers_of(files_dataset(first)) == "1 2 3");  // .jsonl as often as .csv; .json is the same format
}

TEST_CASE("rows that would be missing or others are refused: other compressions, and options of a README's config") {
  const FilesFolder folder;
  const auto packed = folder.write("packed/a.jsonl", "{\"n\": 1}\n").parent_path();
  folder.write("packed/pictures.zip", "");  // no data by its name
  CHECK(numbers_of(files_dataset(packed)) == "1");
  folder.write("packed/b.jsonl.bz2", "");
  CHECK(files_error(files_dataset(packed)).find("b.jsonl.bz2] expected data as it is, or in .gz or .zst, got .bz2") !=
        std::string::npos);
  const fs::path sharded = folder.path() / "sharded";
  folder.write("sharded/data/train-00000-of-00002.jsonl", "{\"n\": 1}\n");
  folder.write("sharded/data/train-00001-of-00002.jsonl.xz", "");
  CHECK(files_error(files_dataset(sharded)).find("got .xz; decompress it") != std::string::npos);
  const auto described = folder.write("described/a.csv", "n;m\n1;2\n").parent_path();
  folder.write("described/README.md", "---\nconfigs:\n- config_name: default\n  data_files: a.csv\n  sep: ;\n---\n");
  CHECK(files_error(files_dataset(described)).find("README.md] expected a config without sep") != std::string::npos);
}

TEST_CASE("the name of a folder is no pattern, whatever characters it has") {
  const FilesFolder folder;
  folder.write("all [v1]*/train.jsonl", numbered(0, 2));
  folder.write("all [v1]*/sub/test.jsonl", numbered(2, 3));
  const fs::path path = folder.path() / "all [v1]*";
  CHECK(numbers_of(files_dataset(path)) == "0 1");
  CHECK(numbers_of(files_dataset(path, "test")) == "2");
  DatasetConfig config = files_dataset(path);
  config.data_files = {"tr*.jsonl", "*/*.jsonl"};
  CHECK(numbers_of(config) == "0 1 2");
}

TEST_CASE("a folder's README says which files belong to a config") {
  const FilesFolder folder;
  folder.write("a/one.jsonl", numbered(0, 1));
  folder.write("b/two.jsonl", numbered(1, 2));
  folder.write("README.md",
               "---\nlicense: mit\nconfigs:\n- config_name: a\n  default: true\n  data_files: a/*.jsonl\n"
               "- config_name: b\n  data_files:\n  - split: train\n    path: 'b/*'\n  - split: test\n    path: "
               "[a/one.jsonl]\n---\ntext\n");
  CHECK(numbers_of(files_dataset(folder.path())) == "0");
  DatasetConfig config = files_dataset(folder.path());
  config.name = "b";
  CHECK(numbers_of(config) == "1");
  config.split = "test";
  CHECK(numbers_of(config) == "0");
  config.name = "c";
  CHECK(files_error(config).find("expected one of a, b") != std::string::npos);
  for (const char* outside : {"..", "/", "a/../.."}) {
    folder.write("README.md", fmt::format("---\nconfigs: [{{config_name: c, data_dir: {}}}]\n---\n", outside));
    CHECK(files_error(config).find("expected files of its own folder") != std::string::npos);
  }
  folder.write("README.md", "---\nconfigs: [{\n---\n");
  CHECK(files_error(config).find("expected YAML between the --- lines") != std::string::npos);
}

TEST_CASE("patterns and data_files name files") {
  const FilesFolder folder;
  for (const char* name : {"x/a1.jsonl", "x/a2.jsonl", "x/b1.jsonl", "x/y/a3.jsonl", "x/.a4.jsonl"})
    folder.write(name, numbered(name[std::string_view(name).find('.', 3) - 1] - '0',
                                name[std::string_view(name).find('.', 3) - 1] - '0' + 1));
  const std::string base = (folder.path() / "x").string();
  CHECK(numbers_of(files_dataset(base + "/a*.jsonl")) == "1 2");
  CHECK(numbers_of(files_dataset(base + "/**/a?.jsonl")) == "1 2 3");
  CHECK(numbers_of(files_dataset(base + "/[!a]*.jsonl")) == "1");
  CHECK(numbers_of(files_dataset(base + "/a[2-3].jsonl")) == "2");
  CHECK(files_error(files_dataset(base + "/c*.jsonl")).find("expected a pattern that matches files") !=
        std::string::npos);
  DatasetConfig config = files_dataset(base);
  config.data_files = {"a2.jsonl", "y/*"};
  CHECK(numbers_of(config) == "2 3");
  config.path = "json";
  config.data_files = {base + "/a1.jsonl"};
  CHECK(numbers_of(config) == "1");
  config.split = "train+validation";
  CHECK(files_error(config).find("a1.jsonl has (train), got 'validation'") != std::string::npos);
  CHECK(files_error(files_dataset(base + "/a*.jsonl", "nonsense")).find("(train), got 'nonsense'") !=
        std::string::npos);
  CHECK(files_error(files_dataset(base + "/a1.jsonl", "train+test")).find("(train), got 'test'") != std::string::npos);
  config.split = "train";
  config.data_files = {"nosuch.jsonl"};
  CHECK(files_error(config).find("got 'nosuch.jsonl', which matches none") != std::string::npos);
}

TEST_CASE("a folder that cannot be read is an error, and not as if it were empty") {
  const TemporaryFolder folder;
  // Fails for root, too, whom no permission keeps out.
  std::filesystem::create_symlink("circle", folder.path() / "circle");
  CHECK_THROWS_WITH_AS((void)match_files(folder.path() / "circle", "*.jsonl"), doctest::Contains("circle"), InputError);
  CHECK(match_files(folder.path() / "none", "*.jsonl").empty());
}

TEST_CASE("shards deal rows out and weights repeat or thin them") {
  const FilesFolder folder;
  DatasetConfig config = files_dataset(folder.write("n.jsonl", numbered(0, 7)));
  config.shards = 3;
  CHECK(numbers_of(config) == "0 3 6");
  config.shards_idx = 2;
  CHECK(numbers_of(config) == "2 5");
  config.skip = 3;
  CHECK(numbers_of(config) == "5");
  config.skip = 0;
  config.shards = 1;
  config.shards_idx = 0;
  config.weight = 0.5;
  CHECK(numbers_of(config) == "1 3 5");
  config.weight = 1.5;
  CHECK(numbers_of(config) == "0 1 1 2 3 3 4 5 5 6");
}

TEST_CASE("fractions take as many first rows as TRL takes, and columns leave those alone that they name") {
  const FilesFolder folder;
  for (const Json& mixture : read_json(kFilesGolden / "mixtures.json").at("mixtures")) {
    CAPTURE(mixture.dump());
    std::vector<DatasetConfig> configs;
    for (size_t i = 0; i < mixture["sizes"].size(); ++i) {
      const int first = 100 * static_cast<int>(i), size = mixture["sizes"][i];
      configs.push_back(files_dataset(folder.write(fmt::format("{}.jsonl", i), numbered(first, first + size))));
      configs.back().fraction = mixture["fractions"][i].get<double>();
      configs.back().columns = {"n"};
    }
    Json rows = Json::array();
    for (RecordReader& reader : open_datasets(configs))
      for (Record record; reader.next(record);) rows.push_back(record.fields.at("n"));
    CHECK(rows == mixture["rows"]);
  }
}

TEST_CASE("a column that no row has is an error, one that a row lacks is not") {
  const FilesFolder folder;
  DatasetConfig config = files_dataset(folder.write("n.jsonl", "{\"n\": 1, \"m\": 2}\n{\"n\": 3, \"x\": 4}\n"));
  config.columns = {"x", "n"};
  CHECK(rows_of_files(config) == Json::parse(R"([{"n": 1}, {"x": 4, "n": 3}])"));
  config.columns = {"n", "y"};
  CHECK(files_error(config) == fmt::format("[columns] expected columns of {}, got 'y', which none of its 2 rows has; "
                                           "correct it",
                                           config.path));
}

TEST_CASE("data_dir is the folder in which the datasets library looks for the files of a split") {
  for (const Json& one : read_json(kFilesGolden / "mixtures.json").at("folders")) {
    CAPTURE(one.dump());
    const FilesFolder folder;
    for (size_t i = 0; i < one["files"].size(); ++i) {
      const int first = 100 * static_cast<int>(i);
      (void)folder.write(one["files"][i], numbered(first, first + 2));
    }
    const bool has_path = one.contains("path");
    DatasetConfig config = files_dataset(has_path ? fs::path(one["path"].get<std::string>()) : folder.path());
    config.split = one["split"];
    config.data_dir =
        (has_path ? folder.path() / one["data_dir"].get<std::string>() : fs::path(one["data_dir"])).string();
    if (one.contains("data_files")) config.data_files = one["data_files"].get<std::vector<std::string>>();
    Json rows = Json::array();
    for (const Json& row : rows_of_files(config)) rows.push_back(row["n"]);
    CHECK(rows == one["rows"]);
  }
  const FilesFolder folder;
  (void)folder.write("a/n.jsonl", numbered(0, 1));
  DatasetConfig config = files_dataset(folder.path());
  config.data_dir = "b";
  CHECK(files_error(config) ==
        fmt::format("[data_dir] expected a folder in {}, got 'b', which is none; correct it", config.path));
}

TEST_CASE("a name that is no path is looked up in the Hugging Face cache") {
  const FilesFolder home;
  const std::string older = getenv("HF_HOME") != nullptr ? getenv("HF_HOME") : "";
  setenv("HF_HOME", home.path().c_str(), 1);
  CHECK(files_error(files_dataset("someone/rows")).find("spillway fetch someone/rows --dataset") != std::string::npos);
  home.write("hub/datasets--someone--rows/refs/main", "abc\n");
  home.write("hub/datasets--someone--rows/snapshots/abc/train.jsonl", numbered(0, 2));
  home.write("hub/datasets--someone--rows/snapshots/old/train.jsonl", numbered(5, 6));
  CHECK(numbers_of(files_dataset("someone/rows")) == "0 1");
  DatasetConfig config = files_dataset("someone/rows");
  config.revision = "old";
  CHECK(numbers_of(config) == "5");
  if (kReadsArrow) {
    fs::create_directories(home.path() / "datasets/someone___table/default/0.0.0/hash");
    fs::copy_file(kFilesGolden / "rows.arrow",
                  home.path() / "datasets/someone___table/default/0.0.0/hash/table-train.arrow");
    CHECK(rows_of_files(files_dataset("someone/table")).size() == 5);
  }
  CHECK(files_error(files_dataset("./someone/rows")).find("no such path") != std::string::npos);
  CHECK(files_error(files_dataset("s3://bucket/rows")).find("no such path") != std::string::npos);
  if (older.empty()) {
    unsetenv("HF_HOME");
  } else {
    setenv("HF_HOME", older.c_str(), 1);
  }
}

TEST_CASE("a file that is a pipe is refused without waiting") {
  const FilesFolder folder;
  const fs::path pipe = folder.path() / "rows.jsonl";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(files_error(files_dataset(pipe)) != "no error");
}

}  // namespace spillway::data

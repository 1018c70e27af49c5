#include "data/files/record_reader.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// Feeds a few bytes at a time, so that every boundary falls inside something.
ByteSource drip_records(std::string text, size_t step) {
  return [text = std::move(text), step, at = size_t{0}](char* into, size_t size) mutable {
    const size_t count = std::min({step, size, text.size() - at});
    std::memcpy(into, text.data() + at, count);
    at += count;
    return count;
  };
}

Json read_all(const std::string& text, RecordFormat format = RecordFormat::kJson, size_t step = 1000,
              const std::string& name = "f") {
  RecordReader reader(drip_records(text, step), format, name);
  Json rows = Json::array();
  Record record;
  while (reader.next(record)) rows.push_back({{record.where, record.fields}});
  return rows;
}

std::string reader_error(const std::string& text, RecordFormat format = RecordFormat::kJson) {
  try {
    (void)read_all(text, format);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("JSON lines, a list and an object with data give the same rows, however the bytes arrive") {
  const Json one = Json::parse(R"([{"a": 1, "b": "x]}\",{"}, {"a": [1, {"c": null}]}])");
  for (size_t step : {1, 3, 1000}) {
    const Json lines = read_all("\xEF\xBB\xBF{\"a\": 1, \"b\": \"x]}\\\",{\"}\r\n\n  {\"a\": [1, {\"c\": null}]}",
                                RecordFormat::kJson, step);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0]["f:1"] == one[0]);
    CHECK(lines[1]["f:3"] == one[1]);
    const Json list = read_all(one.dump(1), RecordFormat::kJson, step);
    REQUIRE(list.size() == 2);
    CHECK(list[0]["f:2"] == one[0]);
    const Json data =
        read_all(Json{{"version", {{"x", 1}}}, {"data", one}, {"more", 1}}.dump(), RecordFormat::kJson, step);
    REQUIRE(data.size() == 2);
    CHECK(data[1]["f:1"] == one[1]);
  }
  CHECK(read_all("").empty());
  CHECK(read_all("[]").empty());
  CHECK(read_all("\n\n").empty());
}

TEST_CASE("CSV follows RFC 4180") {
  for (size_t step : {1, 2, 1000}) {
    const Json rows = read_all("a,b,c\r\n1,\"x, \"\"y\"\"\r\nz\",\n\n\xC3\xA9,2,\"\"", RecordFormat::kCsv, step);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["f:2"] == Json::parse(R"({"a": "1", "b": "x, \"y\"\r\nz", "c": null})"));
    CHECK(rows[1]["f:5"] == Json::parse(R"({"a": "é", "b": "2", "c": null})"));
  }
}

TEST_CASE("a broken row is named with its line") {
  CHECK(reader_error("{\"a\": 1}\n{\"a\": tru}\n").starts_with("[f:2:10] expected a JSON object"));
  CHECK(reader_error("{\"a\": 1}\n{\"a\": 1\n{\"a\": 1}\n").starts_with("[f:2] expected ','"));
  CHECK(reader_error("{\"a\": 1}\n{\"a\": \"x") ==
        "[f:2] expected '\"' in this row, got no more: the file is cut short; copy it again");
  CHECK(reader_error("{\"a\": 1}\n5\n").starts_with("[f:2] expected a row as a JSON object"));
  CHECK(reader_error("{\"a\": \"\xFF\"}").starts_with("[f:1] expected UTF-8, got the byte 0xff"));
  for (const std::string start : {"\xFF\xFE", "\xFE\xFF", "\xFF\xFE{"}) {
    for (const RecordFormat format : {RecordFormat::kJson, RecordFormat::kCsv, RecordFormat::kText})
      CHECK(reader_error(start, format) ==
            "[f] expected UTF-8, got a byte order mark of UTF-16; save the file as UTF-8");
  }
  CHECK(reader_error("[{\"a\": 1}, {\"a\": 2}").find("the file is cut short; copy it again") != std::string::npos);
  CHECK(reader_error("[{\"a\": 1} {\"a\": 2}]").find("after a row") != std::string::npos);
  CHECK(reader_error("{\"a\": 1}\n{\"a\": 2, b: 3}") ==
        "[f:2:10] expected a key in quotes in this row, got 'b'; correct the row");
  CHECK(reader_error("[{\"a\": 1}] x").find("after the list") != std::string::npos);
  CHECK(reader_error("{\"a\": " + std::string(100000, '[')).find("levels deep") != std::string::npos);
  CHECK(reader_error("a,b\n1\n", RecordFormat::kCsv).starts_with("[f:2] expected 2 fields"));
  CHECK(reader_error("a,b\n1,\"2\n", RecordFormat::kCsv).starts_with("[f:2] expected a closing quote"));
  CHECK(reader_error("a,a\n1,2\n", RecordFormat::kCsv).find("differ") != std::string::npos);
  CHECK(reader_error("", RecordFormat::kCsv).find("empty file") != std::string::npos);
  CHECK(reader_error("a\n\xC3\n", RecordFormat::kCsv).starts_with("[f:2] expected UTF-8"));
}

TEST_CASE("only a last line without an end is called cut short") {
  for (const auto& [broken, expected] : {std::pair{"{\"a\": \"x", "'\"'"}, {"{\"a\": [1", "a closing bracket"}}) {
    CAPTURE(broken);
    const std::string row = broken, before = "{\"a\": 1}\n", behind = "\n{\"a\": 3}\n{\"a\": 4}";
    CHECK(reader_error(before + row) ==
          fmt::format("[f:2] expected {} in this row, got no more: the file is cut short; copy it again", expected));
    for (const std::string& text : {before + row + behind, before + row + behind + "\n", before + row + "\n"}) {
      const std::string error = reader_error(text);
      CHECK(error.starts_with(fmt::format("[f:2] expected {} in this row, got the end of the", expected)));
      CHECK(error.ends_with("; correct the row"));
    }
  }
}

// As the datasets library does.
TEST_CASE("several rows may stand on one line of JSON lines") {
  const Json rows = read_all("{\"a\": 1} {\"a\": 2}{\"a\": 3}\n");
  CHECK(rows == Json::parse(R"([{"f:1": {"a": 1}}, {"f:1": {"a": 2}}, {"f:1": {"a": 3}}])"));
  CHECK(reader_error("{\"a\": 1}, {\"a\": 2}\n").starts_with("[f:1"));
}

TEST_CASE("an object whose data are the rows is read to its end, and nothing follows it") {
  const Json rows = Json::parse(R"([{"f:1": {"a": 1}}, {"f:1": {"a": 2}}])");
  for (const char* end : {"}", " , \"x\": [{\"y\": \"]}\"}] }\n", ",\"x\":1}"}) {
    for (size_t step : {1, 1000})
      CHECK(read_all(std::string(R"({"v": 1, "data": [{"a": 1}, {"a": 2}])") + end, RecordFormat::kJson, step) == rows);
  }
  for (const char* second : {R"({"data": [{"a": 2}]})", R"({"a": 2})", "]", "x"}) {
    CAPTURE(std::string(second));
    CHECK(reader_error(std::string(R"({"data": [{"a": 1}]} )") + second)
              .starts_with("[f:1] expected the end of the file after the object whose 'data' are the rows, got more"));
  }
  for (const char* cut : {"", "\n", ", ", ", \"x\"", ", \"x\": ", ", \"x\": [1"}) {
    CAPTURE(std::string(cut));
    CHECK(reader_error(std::string(R"({"data": [{"a": 1}])") + cut).find("f:") == 1);
  }
  CHECK(reader_error(R"({"data": [{"a": 1}])") ==
        "[f:1] expected '}' at the end of the object, got no more: the file is cut short; copy it again");
}

// As the datasets library does.
TEST_CASE("in a file of lines, data is a column") {
  const std::string lines = "{\"data\": [{\"a\": 1}]}\n{\"data\": [2]}\n";
  for (const char* name : {"f.jsonl", "f.ndjson", "f.jsonl.gz", "f.jsonl.zst"}) {
    CAPTURE(std::string(name));
    const Json rows = read_all(lines, RecordFormat::kJson, 1000, name);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].front() == Json::parse(R"({"data": [{"a": 1}]})"));
    CHECK(rows[1].front() == Json::parse(R"({"data": [2]})"));
  }
  CHECK(reader_error(lines).find("name the file *.jsonl where each object is a row") != std::string::npos);
}

TEST_CASE("the time that a row takes grows with its columns, not with their square") {
  constexpr int kColumns = 100'000;
  std::string json, header, values;
  for (int i = 0; i < kColumns; ++i) {
    const std::string separator = i > 0 ? "," : "", name = "c" + std::to_string(i);
    json += separator + "\"" + name + "\":1";
    header += separator + name;
    values += separator + "1";
  }
  const auto begin = std::chrono::steady_clock::now();
  const Json of_json = read_all("{" + json + ",\"c7\":2}"),
             of_csv = read_all(header + "\n" + values, RecordFormat::kCsv);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(of_json[0]["f:1"].size() == kColumns);
  CHECK(of_json[0]["f:1"]["c7"] == 2);
  CHECK(of_json[0]["f:1"].items().begin().key() == "c0");
  CHECK(of_csv[0]["f:2"].size() == kColumns);
  CHECK(of_csv[0]["f:2"]["c99999"] == "1");
  CHECK(reader_error(header + ",c7\n", RecordFormat::kCsv).find("got 'c7' twice") != std::string::npos);
  CHECK(seconds.count() < 20);  // a search for each name among all takes minutes
}

TEST_CASE("a broken value is named with line and column, in a list over several lines, too") {
  CHECK(reader_error("{\"a\": 1}\n  {\"a\" :  [1, x]}\n").starts_with("[f:2:15] expected a JSON object"));
  CHECK(reader_error("[\n  {\"a\": 1},\n  {\n    \"b\": nul\n  }\n]").starts_with("[f:4:13] expected a JSON object"));
  CHECK(reader_error("{\"a\": tru}").ends_with("; correct the row"));
  CHECK(reader_error("{\"a\": 1}\n{\"t\": \"\\\"1e999\", \"n\": 1e999}\n") ==
        "[f:2:23] expected numbers that a double can hold, got '1e999'; correct the row");
}

TEST_CASE("each line of a text is a row") {
  const Json rows = read_all("one\r\n\n two\rthree", RecordFormat::kText, 1);
  CHECK(rows == Json::parse(R"([{"f:1": {"text": "one"}}, {"f:2": {"text": ""}}, {"f:3": {"text": " two"}},
                               {"f:3": {"text": "three"}}])"));
  CHECK(reader_error("a\n\xE9\n", RecordFormat::kText).starts_with("[f:2] expected UTF-8"));
}

TEST_CASE("the format follows from a file's name, without the ending of its compression") {
  CHECK(format_of("a/x.jsonl") == RecordFormat::kJson);
  CHECK(format_of("x.csv.gz") == RecordFormat::kCsv);
  CHECK(format_of("x.y.txt.zst") == RecordFormat::kText);
  CHECK(format_of("x.parquet") == RecordFormat::kParquet);
  CHECK_FALSE(format_of("x.gz"));
  CHECK_FALSE(format_of("csv"));
  CHECK(format_named("csv") == RecordFormat::kCsv);
  CHECK_FALSE(format_named("CSV"));
}

TEST_CASE("messages name the formats and endings that are read") {
  CHECK(format_names() == "json, csv, text, parquet or arrow");
  CHECK(format_endings() == ".jsonl, .json, .ndjson, .csv, .txt, .parquet or .arrow");
}

TEST_CASE("a missing file and a named pipe are refused at once") {
  CHECK_THROWS_AS((void)RecordReader("/nonexistent/rows.jsonl", RecordFormat::kJson), InputError);
  const auto pipe = std::filesystem::temp_directory_path() / ("spillway_pipe_" + std::to_string(getpid()) + ".jsonl");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS((void)RecordReader(pipe, RecordFormat::kJson), InputError);
  std::filesystem::remove(pipe);
  CHECK_THROWS_AS((void)RecordReader(pipe.parent_path(), RecordFormat::kParquet), InputError);
}

}  // namespace spillway::data

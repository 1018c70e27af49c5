// Reads rows of data files, one at a time, in bounded memory: JSON lines, JSON (a list, or an object whose `data` is
// one), CSV (RFC 4180, with a header), plain text (one row per line), each optionally compressed with gzip or
// Zstandard; Parquet and Arrow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/files/byte_source.h"

namespace spillway::data {

// A row with its place, for messages: `where` is "data.jsonl:12", or "data.parquet, row 12" for formats without lines.
struct Record {
  nlohmann::ordered_json fields;  // an object; CSV gives text, and null for an empty field
  std::string where;
  int32_t source = 0;  // of several datasets that are read together: which
  int64_t copy = 0;    // of the same record, where its dataset has a weight above 1: 0 is the first
};

// The limit of one row's size; a larger row is an error.
constexpr size_t kMaxRecordBytes = size_t{256} << 20;

enum class RecordFormat { kJson, kCsv, kText, kParquet, kArrow };

// Returns the format by the file's name, without .gz or .zst: .jsonl, .json, .ndjson, .csv, .txt, .parquet or .arrow.
// Nothing for others.
[[nodiscard]] std::optional<RecordFormat> format_of(const std::filesystem::path& path);
// Returns the ending by which the format is known: ".jsonl" of "a.jsonl.gz".
[[nodiscard]] std::string ending_of(const std::filesystem::path& path);
// Returns the format by the datasets library's name: json, csv, text, parquet or arrow. Nothing for others.
[[nodiscard]] std::optional<RecordFormat> format_named(std::string_view name);

// Yields the records of a file or of many. Not thread-safe.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  // Reads the next record; returns false at the end. Throws InputError naming the place of the error.
  [[nodiscard]] virtual bool next(Record& record) = 0;
};

// Reads the records of a file. Throws InputError naming the line for invalid UTF-8, text that is not of its format, a
// row that is not an object, and a row of more than kMaxRecordBytes. Not thread-safe.
class RecordReader {
 public:
  // Opens regular files only, so that a pipe cannot block.
  RecordReader(const std::filesystem::path& path, RecordFormat format);
  // Reads json, csv or text; `name` stands for the file in messages.
  RecordReader(ByteSource source, RecordFormat format, std::string name);
  explicit RecordReader(std::unique_ptr<RecordParser> parser) : parser_(std::move(parser)) {}

  // Reads the next record; returns false at the end.
  [[nodiscard]] bool next(Record& record) { return parser_->next(record); }

 private:
  std::unique_ptr<RecordParser> parser_;
};

}  // namespace spillway::data

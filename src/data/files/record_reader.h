// Rows of data files, one at a time, in bounded memory: JSON lines, JSON (a list, or an object whose `data` is one),
// CSV (RFC 4180, with a header), plain text (a row a line), each perhaps compressed with gzip or Zstandard; Parquet and
// Arrow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/files/byte_source.h"

namespace spillway::data {

// A row with its place, for messages: `where` is "data.jsonl:12", or "data.parquet, row 12" where there are no lines.
struct Record {
  nlohmann::ordered_json fields;  // an object; CSV gives text, and null for an empty field
  std::string where;
  int32_t source = 0;  // of several datasets that are read together: which
};

// More than this in one row is an error.
constexpr size_t kMaxRecordBytes = size_t{256} << 20;

enum class RecordFormat { kJson, kCsv, kText, kParquet, kArrow };

// By the file's name, without .gz or .zst: .jsonl, .json, .ndjson, .csv, .txt, .parquet or .arrow. Nothing for others.
[[nodiscard]] std::optional<RecordFormat> format_of(const std::filesystem::path& path);
// By the name of the datasets library: json, csv, text, parquet or arrow. Nothing for others.
[[nodiscard]] std::optional<RecordFormat> format_named(std::string_view name);

// What yields records, of a file or of many. One thread.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  // False at the end. Throws InputError naming the place of what is wrong.
  [[nodiscard]] virtual bool next(Record& record) = 0;
};

// Throws InputError naming the line: broken UTF-8, text that is not of its format, a row that is no object, a row of
// more than kMaxRecordBytes. One thread.
class RecordReader {
 public:
  // Only regular files are opened, so that a pipe cannot block.
  RecordReader(const std::filesystem::path& path, RecordFormat format);
  // Of json, csv or text; `name` stands for the file in messages.
  RecordReader(ByteSource source, RecordFormat format, std::string name);
  explicit RecordReader(std::unique_ptr<RecordParser> parser) : parser_(std::move(parser)) {}

  // False at the end.
  [[nodiscard]] bool next(Record& record) { return parser_->next(record); }

 private:
  std::unique_ptr<RecordParser> parser_;
};

}  // namespace spillway::data

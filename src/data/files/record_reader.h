// Rows of a data file, one at a time, in bounded memory: JSON lines, JSON (a list, or an object whose `data` is one)
// and CSV (RFC 4180, with a header).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spillway::data {

// A row with its place, for messages: `where` is "data.jsonl:12".
struct Record {
  nlohmann::ordered_json fields;  // an object; CSV gives text, and null for an empty field
  std::string where;
};

enum class RecordFormat { kJson, kCsv };

// By the file's name: .jsonl, .json, .ndjson or .csv. Throws InputError for any other.
[[nodiscard]] RecordFormat format_of(const std::filesystem::path& path);

// Reads the next bytes into the buffer; 0 at the end.
using ByteSource = std::function<size_t(char* into, size_t size)>;

// Throws InputError naming the line: broken UTF-8, text that is not JSON or CSV, a row that is no object, a row of more
// than kMaxRecordBytes. One thread.
class RecordReader {
 public:
  // Only regular files are opened, so that a pipe cannot block.
  RecordReader(const std::filesystem::path& path, RecordFormat format);
  // `name` stands for the file in messages.
  RecordReader(ByteSource source, RecordFormat format, std::string name);
  ~RecordReader();
  RecordReader(RecordReader&&) noexcept;

  // False at the end.
  [[nodiscard]] bool next(Record& record);

  static constexpr size_t kMaxRecordBytes = size_t{256} << 20;

  struct Parser;  // of one format

 private:
  std::unique_ptr<Parser> parser_;
};

}  // namespace spillway::data

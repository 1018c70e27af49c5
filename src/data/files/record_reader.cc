#include "data/files/record_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

// A format, and what parses it: its bytes, or, where it is not read from its first byte to its last, the file itself.
struct Format {
  RecordFormat format;
  std::string_view name;
  std::array<std::string_view, 3> extensions;
  std::unique_ptr<RecordParser> (*of_bytes)(ByteSource source, std::string name);
};
constexpr std::array kFormats = {
    Format{RecordFormat::kJson, "json", {".jsonl", ".json", ".ndjson"}, make_json_records},
    Format{RecordFormat::kCsv, "csv", {".csv"}, make_csv_records},
    Format{RecordFormat::kText, "text", {".txt"}, make_text_records},
    Format{RecordFormat::kParquet, "parquet", {".parquet"}, nullptr},
    Format{RecordFormat::kArrow, "arrow", {".arrow"}, nullptr},
};

const Format& entry_of(RecordFormat format) {
  return *std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& one) { return one.format == format; });
}

std::unique_ptr<RecordParser> parse(ByteSource source, RecordFormat format, std::string name) {
  const Format& entry = entry_of(format);
  SPILLWAY_CHECK(entry.of_bytes != nullptr, "{} is not parsed from bytes", entry.name);
  return entry.of_bytes(std::move(source), std::move(name));
}

std::unique_ptr<RecordParser> parse_file(const std::filesystem::path& path, RecordFormat format) {
  if (entry_of(format).of_bytes == nullptr) return make_arrow_records(path, format);
  return parse(open_bytes(path), format, path.string());
}

}  // namespace

void check_utf8(std::string_view text, const std::string& where) {
  const int64_t at = first_invalid_utf8(text);
  if (at >= 0)
    throw input_error(where, "expected UTF-8, got the byte 0x{:02x} at byte {} of the row; save the file as UTF-8",
                      static_cast<unsigned char>(nth(text, at)), at + 1);
}

void append(std::string& text, char c, const ByteStream& stream) {
  text.push_back(c);
  if (text.size() > kMaxRecordBytes)
    throw input_error(stream.where(), "expected a row of at most {} MiB, got a larger one; split it",
                      kMaxRecordBytes >> 20);
}

std::string ending_of(const std::filesystem::path& path) {
  const bool is_compressed = path.extension() == ".gz" || path.extension() == ".zst";
  return (is_compressed ? path.stem() : path).extension().string();
}

std::optional<RecordFormat> format_of(const std::filesystem::path& path) {
  const std::string extension = ending_of(path);
  for (const Format& one : kFormats) {
    const auto& known = one.extensions;
    if (!extension.empty() && std::find(known.begin(), known.end(), extension) != known.end()) return one.format;
  }
  return {};
}

std::optional<RecordFormat> format_named(std::string_view name) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& one) { return one.name == name; });
  return found == kFormats.end() ? std::nullopt : std::optional(found->format);
}

std::string format_names() {
  std::vector<std::string_view> names;
  for (const Format& one : kFormats) names.push_back(one.name);
  return joined_names(names);
}

std::string format_endings() {
  std::vector<std::string_view> endings;
  for (const Format& one : kFormats) {
    for (const std::string_view ending : one.extensions) {
      if (!ending.empty()) endings.push_back(ending);
    }
  }
  return joined_names(endings);
}

RecordReader::RecordReader(const std::filesystem::path& path, RecordFormat format)
    : parser_(parse_file(path, format)) {}

RecordReader::RecordReader(ByteSource source, RecordFormat format, std::string name)
    : parser_(parse(std::move(source), format, std::move(name))) {}

}  // namespace spillway::data

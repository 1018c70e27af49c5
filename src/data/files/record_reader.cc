#include "data/files/record_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

struct FormatName {
  RecordFormat format;
  std::string_view name;
  std::array<std::string_view, 3> extensions;
};

constexpr std::array kFormats = {
    FormatName{RecordFormat::kJson, "json", {".jsonl", ".json", ".ndjson"}},
    FormatName{RecordFormat::kCsv, "csv", {".csv"}},
    FormatName{RecordFormat::kText, "text", {".txt"}},
    FormatName{RecordFormat::kParquet, "parquet", {".parquet"}},
    FormatName{RecordFormat::kArrow, "arrow", {".arrow"}},
};

std::unique_ptr<RecordParser> parse(ByteSource source, RecordFormat format, std::string name) {
  switch (format) {
    case RecordFormat::kCsv:
      return make_csv_records(std::move(source), std::move(name));
    case RecordFormat::kText:
      return make_text_records(std::move(source), std::move(name));
    default:
      return make_json_records(std::move(source), std::move(name));
  }
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

std::optional<RecordFormat> format_of(const std::filesystem::path& path) {
  std::filesystem::path plain = path;
  if (plain.extension() == ".gz" || plain.extension() == ".zst") plain = plain.stem();
  const std::string extension = plain.extension().string();
  for (const FormatName& one : kFormats) {
    const auto& known = one.extensions;
    if (!extension.empty() && std::find(known.begin(), known.end(), extension) != known.end()) return one.format;
  }
  return {};
}

std::optional<RecordFormat> format_named(std::string_view name) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatName& one) { return one.name == name; });
  return found == kFormats.end() ? std::nullopt : std::optional(found->format);
}

RecordReader::RecordReader(const std::filesystem::path& path, RecordFormat format)
    : parser_(format == RecordFormat::kParquet || format == RecordFormat::kArrow
                  ? make_arrow_records(path, format)
                  : parse(open_bytes(path), format, path.string())) {}

RecordReader::RecordReader(ByteSource source, RecordFormat format, std::string name)
    : parser_(parse(std::move(source), format, std::move(name))) {}

}  // namespace spillway::data

// The parsers behind RecordReader, one per format, and their common functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/byte_stream.h"
#include "data/files/record_reader.h"

namespace spillway::data {

[[nodiscard]] std::unique_ptr<RecordParser> make_json_records(ByteSource source, std::string name);
[[nodiscard]] std::unique_ptr<RecordParser> make_csv_records(ByteSource source, std::string name);
[[nodiscard]] std::unique_ptr<RecordParser> make_text_records(ByteSource source, std::string name);
// Reads Parquet, and Arrow's file and stream formats, from the file itself. For Parquet, only the existing ones among
// the top-level `columns`; null: all. Throws InputError also if this build has no Arrow.
[[nodiscard]] std::unique_ptr<RecordParser> make_arrow_records(const std::filesystem::path& path, RecordFormat format,
                                                               const std::vector<std::string>* columns = nullptr);

// Texts for messages: "json, csv, text, parquet or arrow", and ".jsonl, .json, .ndjson, .csv, .txt, .parquet or
// .arrow".
[[nodiscard]] std::string format_names();
[[nodiscard]] std::string format_endings();

// Throws InputError with line and column if `text`, which begins at `where` ("FILE:LINE"), is not UTF-8.
void check_utf8(std::string_view text, const std::string& where);

// Appends a byte of a record; throws InputError beyond kMaxRecordBytes.
void append(std::string& text, char c, const ByteStream& stream);

}  // namespace spillway::data

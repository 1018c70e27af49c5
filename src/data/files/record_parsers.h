// The parsers behind RecordReader, one a format, and what they share.
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
// Parquet, and Arrow's file and stream formats, from the file itself. Of Parquet the `columns` at the top alone, as far
// as they are there; null: all. Throws InputError also where this build has no Arrow.
[[nodiscard]] std::unique_ptr<RecordParser> make_arrow_records(const std::filesystem::path& path, RecordFormat format,
                                                               const std::vector<std::string>* columns = nullptr);

// For messages: "json, csv, text, parquet or arrow", and ".jsonl, .json, .ndjson, .csv, .txt, .parquet or .arrow".
[[nodiscard]] std::string format_names();
[[nodiscard]] std::string format_endings();

// Throws InputError with line and column for bytes of `text`, which begins at `where` ("FILE:LINE"), that are not
// UTF-8.
void check_utf8(std::string_view text, const std::string& where);

// Adds a byte of a record; throws InputError for more than kMaxRecordBytes.
void append(std::string& text, char c, const ByteStream& stream);

}  // namespace spillway::data

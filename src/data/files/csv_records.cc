// CSV (RFC 4180) with a header.
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "data/files/byte_stream.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

class CsvRecords : public RecordParser {
 public:
  CsvRecords(ByteSource source, std::string name) : stream_(std::move(source), std::move(name)) {
    if (!read_line(header_))
      throw input_error(stream_.where(), "expected a line of column names, got an empty file; write the rows");
    std::unordered_set<std::string_view> names;
    for (const std::string& column : header_) {
      if (!names.insert(column).second) {
        throw input_error(stream_.where(1), "expected column names that differ, got {} twice; rename one",
                          quote(column));
      }
    }
  }

  bool next(Record& record) override {
    std::vector<std::string> values;
    skip_empty_lines();
    const int64_t line = stream_.line();
    if (!read_line(values)) return false;
    record.where = stream_.where(line);
    if (values.size() != header_.size()) {
      throw input_error(record.where, "expected {} fields as in the first line, got {}; quote fields that hold commas",
                        header_.size(), values.size());
    }
    record.fields = Json::object();
    auto& members = record.fields.get_ref<Json::object_t&>();  // to which a name that differs is added at once
    for (size_t i = 0; i < values.size(); ++i) {
      members.emplace_back(header_[i], values[i].empty() ? Json() : Json(std::move(values[i])));
    }
    return true;
  }

 private:
  void skip_empty_lines() {
    while (!stream_.at_end() && (stream_.peek() == '\n' || stream_.peek() == '\r')) stream_.take();
  }

  bool read_line(std::vector<std::string>& values) {
    if (stream_.at_end()) return false;
    const int64_t line = stream_.line();
    size_t bytes = 0;
    for (bool more = true; more;) {
      values.emplace_back();
      more = read_field(values.back());
      check_utf8(values.back(), stream_.where(line));
      bytes += values.back().size() + 1;
      if (bytes > kMaxRecordBytes)
        throw input_error(stream_.where(line), "expected a row of at most {} MiB, got a larger one; correct the row",
                          kMaxRecordBytes >> 20);
    }
    return true;
  }

  // Returns true if a comma, and so another field, follows.
  bool read_field(std::string& value) {
    if (!stream_.at_end() && stream_.peek() == '"') read_quoted(value);
    while (!stream_.at_end()) {
      const char c = stream_.take();
      if (c == ',') return true;
      if (c == '\n') return false;
      if (c == '\r') {
        if (!stream_.at_end() && stream_.peek() == '\n') stream_.take();
        return false;
      }
      append(value, c, stream_);
    }
    return false;
  }

  void read_quoted(std::string& value) {
    const int64_t line = stream_.line();
    stream_.take();
    while (!stream_.at_end()) {
      const char c = stream_.take();
      if (c == '"') {
        if (stream_.at_end() || stream_.peek() != '"') return;
        stream_.take();
      }
      append(value, c, stream_);
    }
    throw input_error(stream_.where(line),
                      "expected a closing quote for the field that begins here, got the end of the file; close it");
  }

  ByteStream stream_;
  std::vector<std::string> header_;
};

}  // namespace

std::unique_ptr<RecordParser> make_csv_records(ByteSource source, std::string name) {
  return std::make_unique<CsvRecords>(std::move(source), std::move(name));
}

}  // namespace spillway::data

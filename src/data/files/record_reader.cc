#include "data/files/record_reader.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/files/byte_stream.h"
#include "io/file.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxNesting = 200;

ByteSource read_from(const std::filesystem::path& path) {
  const auto file = std::make_shared<ReadFile>(path);
  return [file, at = int64_t{0}](char* into, size_t size) mutable {
    const size_t count = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(size), file->size() - at));
    file->read(at, std::as_writable_bytes(std::span(into, count)));
    at += static_cast<int64_t>(count);
    return count;
  };
}

void check_utf8(std::string_view text, const std::string& where) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t point = 0;
    const auto length = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (length <= 0) {
      throw input_error(where, "expected UTF-8, got the byte 0x{:02x}; save the file as UTF-8",
                        static_cast<unsigned char>(text[at]));
    }
    at += static_cast<size_t>(length);
  }
}

void append(std::string& text, char c, const ByteStream& stream) {
  text.push_back(c);
  if (text.size() > RecordReader::kMaxRecordBytes) {
    throw input_error(stream.where(), "expected a row of at most {} MiB, got a larger one; split it",
                      RecordReader::kMaxRecordBytes >> 20);
  }
}

}  // namespace

struct RecordReader::Parser {
  virtual ~Parser() = default;
  [[nodiscard]] virtual bool next(Record& record) = 0;
};

namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Cuts a stream of JSON into its rows without building more than one of them: top-level objects one after the other,
// or the items of a top-level list, or those of the list under "data" in a top-level object.
class JsonRecords : public RecordReader::Parser {
 public:
  JsonRecords(ByteSource source, std::string name) : stream_(std::move(source), std::move(name)) {}

  bool next(Record& record) override {
    for (;;) {
      skip_space();
      if (stream_.at_end()) {
        if (in_list_)
          throw input_error(stream_.where(),
                            "expected ']' at the end of the list, got the end of the file; it is cut short");
        return false;
      }
      if (in_list_ ? at_list_end() : at_list_start()) continue;
      if (done_) return false;
      row_line_ = stream_.line();
      if (!in_list_ && stream_.peek() == '{') {
        if (read_object(record)) return true;
        continue;
      }
      std::string text;
      const int64_t line = stream_.line();
      cut_value(text);
      parse(text, line, record);
      return true;
    }
  }

 private:
  void skip_space() {
    while (!stream_.at_end() && is_json_space(stream_.peek())) stream_.take();
  }
  [[noreturn]] void fail(std::string_view expected) {
    const std::string got = stream_.at_end() ? "the end of the file" : quote(std::string(1, stream_.peek()));
    throw input_error(stream_.where(row_line_), "expected {} in this row, got {}; split the row", expected, got);
  }
  void expect(char c) {
    skip_space();
    if (stream_.at_end() || stream_.peek() != c) fail(fmt::format("'{}'", c));
    stream_.take();
  }

  bool at_list_start() {
    if (stream_.peek() != '[' || rows_ > 0) return false;
    stream_.take();
    in_list_ = true;
    return true;
  }
  // Between the items of a list: takes the comma or the end.
  bool at_list_end() {
    const char c = stream_.peek();
    if (c == ']') {
      stream_.take();
      in_list_ = false;
      done_ = true;
      if (!in_data_) check_nothing_follows();
      return true;
    }
    if (first_item_) {
      first_item_ = false;
      return false;
    }
    if (c != ',') fail("',' or ']' after a row");
    stream_.take();
    skip_space();
    return false;
  }
  void check_nothing_follows() {
    skip_space();
    if (!stream_.at_end())
      throw input_error(stream_.where(), "expected the end of the file after the list, got more; remove the rest");
  }

  // A top-level object: a row, unless it is the one that holds the rows under "data". False where it began that list.
  bool read_object(Record& record) {
    const int64_t line = stream_.line();
    std::string text;
    append(text, stream_.take(), stream_);
    skip_space();
    for (bool first = true; !stream_.at_end() && stream_.peek() != '}'; first = false) {
      if (!first) {
        expect(',');
        text.push_back(',');
        skip_space();
      }
      std::string key;
      if (stream_.at_end() || stream_.peek() != '"') fail("a key in quotes");
      cut_value(key);
      expect(':');
      skip_space();
      if (rows_ == 0 && key == "\"data\"" && !stream_.at_end() && stream_.peek() == '[') {
        stream_.take();
        in_list_ = in_data_ = true;
        return false;
      }
      text += key + ":";
      cut_value(text);
      skip_space();
    }
    if (stream_.at_end()) fail("'}'");
    append(text, stream_.take(), stream_);
    parse(text, line, record);
    return true;
  }

  // Appends the text of the value that begins here.
  void cut_value(std::string& text) {
    const size_t begin = text.size();
    int open = 0;
    bool quoted = false;
    while (!stream_.at_end()) {
      const char c = stream_.peek();
      if (!quoted && open == 0 && text.size() > begin &&
          (is_json_space(c) || c == ',' || c == ']' || c == '}' || c == ':'))
        return;
      append(text, stream_.take(), stream_);
      if (quoted && c == '\\' && !stream_.at_end()) {
        append(text, stream_.take(), stream_);
      } else if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && (c == '{' || c == '[')) {
        if (++open > kMaxNesting)
          throw input_error(stream_.where(), "expected values nested at most {} levels deep, got more; correct the row",
                            kMaxNesting);
      } else if (!quoted && (c == '}' || c == ']')) {
        --open;
      }
      if (!quoted && open <= 0 && (c == '"' || c == '}' || c == ']')) return;
    }
    if (quoted || open > 0) fail(quoted ? "'\"'" : "a closing bracket");
    if (text.size() == begin) fail("a value");
  }

  void parse(const std::string& text, int64_t line, Record& record) {
    record.where = stream_.where(line);
    check_utf8(text, record.where);
    try {
      record.fields = Json::parse(text);
    } catch (const Json::parse_error& error) {
      // nlohmann's message begins with its own id and place.
      std::string reason = error.what();
      const size_t colon = reason.find(": ", reason.find(']'));
      if (colon != std::string::npos) reason.erase(0, colon + 2);
      throw input_error(record.where, "expected a JSON object, got {}; {}", quote(text), quote(reason));
    }
    if (!record.fields.is_object()) {
      throw input_error(record.where, "expected a row as a JSON object, got {}; correct the row", quote(text));
    }
    ++rows_;
  }

  ByteStream stream_;
  bool in_list_ = false, in_data_ = false, first_item_ = true, done_ = false;
  int64_t rows_ = 0;
  int64_t row_line_ = 1;  // where the row that is being read begins
};

class CsvRecords : public RecordReader::Parser {
 public:
  CsvRecords(ByteSource source, std::string name) : stream_(std::move(source), std::move(name)) {
    if (!read_line(header_))
      throw input_error(stream_.where(), "expected a line of column names, got an empty file; write the rows");
    for (const std::string& column : header_) {
      if (std::count(header_.begin(), header_.end(), column) > 1) {
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
    for (size_t i = 0; i < values.size(); ++i) {
      record.fields[header_[i]] = values[i].empty() ? Json() : Json(std::move(values[i]));
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
      if (bytes > RecordReader::kMaxRecordBytes)
        throw input_error(stream_.where(line), "expected a row of at most {} MiB, got a larger one; correct the row",
                          RecordReader::kMaxRecordBytes >> 20);
    }
    return true;
  }

  // True where a comma, and so another field, follows.
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

RecordFormat format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") return RecordFormat::kJson;
  if (extension == ".csv") return RecordFormat::kCsv;
  throw input_error(path.string(),
                    "expected a .jsonl, .json or .csv file, got '{}'; convert it, or say ds_type: json or csv",
                    extension);
}

RecordReader::RecordReader(const std::filesystem::path& path, RecordFormat format)
    : RecordReader(read_from(path), format, path.string()) {}

RecordReader::RecordReader(ByteSource source, RecordFormat format, std::string name) {
  if (format == RecordFormat::kCsv) {
    parser_ = std::make_unique<CsvRecords>(std::move(source), std::move(name));
  } else {
    parser_ = std::make_unique<JsonRecords>(std::move(source), std::move(name));
  }
}

RecordReader::~RecordReader() = default;
RecordReader::RecordReader(RecordReader&&) noexcept = default;

bool RecordReader::next(Record& record) { return parser_->next(record); }

}  // namespace spillway::data

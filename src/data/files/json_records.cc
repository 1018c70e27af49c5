// JSON lines and JSON: top-level objects, a list of them, or an object whose `data` is one.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/files/byte_stream.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxNesting = 200;

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Returns where a number outside of quotes begins; 0 if there is none.
size_t find_outside_texts(std::string_view json, std::string_view number) {
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (quoted && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && json.substr(i).starts_with(number)) {
      return i;
    }
  }
  return 0;
}

// Returns true if the name says that the file has an object a line: `data` is a column there like any other.
bool has_lines(std::string_view name) {
  std::filesystem::path plain(name);
  if (plain.extension() == ".gz" || plain.extension() == ".zst") plain = plain.stem();
  return plain.extension() == ".jsonl" || plain.extension() == ".ndjson";
}

// Cuts a stream of JSON into its rows without building more than one of them: top-level objects one after the other,
// or the items of a top-level list, or those of the list under "data" in a top-level object.
class JsonRecords : public RecordParser {
 public:
  JsonRecords(ByteSource source, const std::string& name)
      : stream_(std::move(source), name), has_lines_(has_lines(name)) {}

  bool next(Record& record) override {
    for (;;) {
      skip_space();
      if (stream_.at_end()) {
        if (in_list_)
          throw input_error(stream_.where(),
                            "expected ']' at the end of the list, got no more: the file is cut short; copy it again");
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
      const int64_t line = stream_.line(), column = stream_.column();
      cut_value(text);
      parse(text, line, column, record);
      return true;
    }
  }

 private:
  void skip_space(std::string* kept = nullptr) {
    while (!stream_.at_end() && is_json_space(stream_.peek())) {
      const char c = stream_.take();
      if (kept != nullptr) append(*kept, c, stream_);
    }
  }
  [[noreturn]] void fail(std::string_view expected) {
    // Only for a last line without an end is the cause certain.
    if (stream_.at_end() && stream_.line() == row_line_)
      throw input_error(stream_.where(row_line_),
                        "expected {} in this row, got no more: the file is cut short; copy it again", expected);
    if (stream_.at_end())
      throw input_error(stream_.where(row_line_), "expected {} in this row, got the end of the file; correct the row",
                        expected);
    // An unclosed row is detected on a later line: the message names its own.
    const std::string where =
        stream_.line() == row_line_ ? stream_.where({}, 0, row_line_, stream_.column()) : stream_.where(row_line_);
    throw input_error(where, "expected {} in this row, got {}; correct the row", expected,
                      quote(std::string(1, stream_.peek())));
  }
  void expect(char c, std::string& text) {
    skip_space(&text);
    if (stream_.at_end() || stream_.peek() != c) fail(fmt::format("'{}'", c));
    append(text, stream_.take(), stream_);
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
      if (in_data_) finish_object();
      check_nothing_follows();
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
  // Takes what follows the list in the object that holds it.
  void finish_object() {
    std::string ignored;
    for (;;) {
      skip_space();
      if (stream_.at_end())
        throw input_error(stream_.where(),
                          "expected '}}' at the end of the object, got no more: the file is cut short; copy it again");
      if (stream_.peek() == '}') break;
      row_line_ = stream_.line();
      expect(',', ignored);
      skip_space();
      (void)take_key();
      cut_value(ignored);
      ignored.clear();
    }
    stream_.take();
  }
  void check_nothing_follows() {
    skip_space();
    if (stream_.at_end()) return;
    if (in_data_)
      throw input_error(stream_.where(),
                        "expected the end of the file after the object whose 'data' are the rows, got more; remove "
                        "the rest, or name the file *.jsonl where each object is a row");
    throw input_error(stream_.where(), "expected the end of the file after the list, got more; remove the rest");
  }

  // Consumes `"KEY":` and the space after it; returns the key in its quotes, and that space.
  std::pair<std::string, std::string> take_key() {
    std::string key, colon;
    if (stream_.at_end() || stream_.peek() != '"') fail("a key in quotes");
    cut_value(key);
    expect(':', colon);
    skip_space(&colon);
    return {std::move(key), std::move(colon)};
  }

  // Reads a top-level object: a row, unless it is the one that holds the rows under "data". Returns false if that list
  // begins.
  bool read_object(Record& record) {
    const int64_t line = stream_.line(), column = stream_.column();
    std::string text;
    append(text, stream_.take(), stream_);
    skip_space(&text);
    for (bool first = true; !stream_.at_end() && stream_.peek() != '}'; first = false) {
      if (!first) {
        expect(',', text);
        skip_space(&text);
      }
      const auto [key, colon] = take_key();
      const bool may_hold_rows = rows_ == 0 && !has_lines_;
      if (may_hold_rows && key == "\"data\"" && !stream_.at_end() && stream_.peek() == '[') {
        stream_.take();
        in_list_ = in_data_ = true;
        return false;
      }
      text += key + colon;
      cut_value(text);
      skip_space(&text);
    }
    if (stream_.at_end()) fail("'}'");
    append(text, stream_.take(), stream_);
    parse(text, line, column, record);
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
      if (quoted && c == '\n')
        throw input_error(stream_.where(), "expected '\"' in this row, got the end of the line; correct the row");
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

  void parse(const std::string& text, int64_t line, int64_t column, Record& record) {
    record.where = stream_.where(line);
    check_utf8(text, record.where);
    try {
      record.fields = read_json<Json>(text, record.where);
    } catch (const Json::parse_error& error) {
      // nlohmann's message begins with its own id and place.
      std::string reason = error.what();
      const size_t colon = reason.find(": ", reason.find(']'));
      if (colon != std::string::npos) reason.erase(0, colon + 2);
      throw input_error(stream_.where(text, std::max<size_t>(error.byte, 1) - 1, line, column),
                        "expected a JSON object, got {} ({}); correct the row", quote(text), quote(reason));
    } catch (const Json::out_of_range& error) {
      // nlohmann's message ends with the number.
      const std::string reason = error.what();
      const size_t open = reason.find('\''), close = reason.rfind('\'');
      const std::string number = open < close ? reason.substr(open + 1, close - open - 1) : std::string();
      throw input_error(stream_.where(text, find_outside_texts(text, number), line, column),
                        "expected numbers that a double can hold, got {}; correct the row", quote(number));
    }
    if (!record.fields.is_object()) {
      throw input_error(record.where, "expected a row as a JSON object, got {}; correct the row", quote(text));
    }
    ++rows_;
  }

  ByteStream stream_;
  bool has_lines_;
  bool in_list_ = false, in_data_ = false, first_item_ = true, done_ = false;
  int64_t rows_ = 0;
  int64_t row_line_ = 1;  // where the row that is being read begins
};

}  // namespace

std::unique_ptr<RecordParser> make_json_records(ByteSource source, std::string name) {
  return std::make_unique<JsonRecords>(std::move(source), name);
}

}  // namespace spillway::data

// Plain text: each line is a record with the one field `text`.
#include "base/error.h"
#include "data/files/byte_stream.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

class TextRecords : public RecordParser {
 public:
  TextRecords(ByteSource source, std::string name) : stream_(std::move(source), std::move(name)) {}

  bool next(Record& record) override {
    if (stream_.at_end()) return false;
    record.where = stream_.where();
    std::string text;
    while (!stream_.at_end()) {
      const char c = stream_.take();
      if (c == '\r' && !stream_.at_end() && stream_.peek() == '\n') continue;
      if (c == '\n' || c == '\r') break;
      append(text, c, stream_);
    }
    check_utf8(text, record.where);
    record.fields = {{"text", std::move(text)}};
    return true;
  }

 private:
  ByteStream stream_;
};

}  // namespace

std::unique_ptr<RecordParser> make_text_records(ByteSource source, std::string name) {
  return std::make_unique<TextRecords>(std::move(source), std::move(name));
}

}  // namespace spillway::data

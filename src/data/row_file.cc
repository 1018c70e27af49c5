#include "data/row_file.h"

#include <fmt/format.h>

#include <string>

namespace spillway::data {
namespace {

// A JSON list of integers.
class NumberList {
 public:
  void add(int64_t number) {
    if (text_.size() > 1) text_ += ", ";
    text_ += fmt::format_int(number).c_str();
  }
  [[nodiscard]] std::string text() const { return text_ + "]"; }

 private:
  std::string text_ = "[";
};

std::string json_line(const RowTable& rows, std::span<const Piece> line) {
  NumberList ids, labels, positions, lengths;
  int64_t position = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const Piece& piece = line[i];
    const std::span<const int32_t> piece_ids = rows.ids(piece), piece_labels = rows.labels(piece);
    if (!piece.continues) position = 0;
    for (size_t token = 0; token < piece_ids.size(); ++token) {
      ids.add(piece_ids[token]);
      labels.add(position == 0 ? kIgnoredLabel : piece_labels[token]);
      positions.add(position++);
    }
    const bool ends = i + 1 == line.size() || !line[i + 1].continues;
    if (ends) lengths.add(position);
  }
  return fmt::format("{{\"input_ids\": {}, \"labels\": {}, \"position_ids\": {}, \"seq_lengths\": {}}}\n", ids.text(),
                     labels.text(), positions.text(), lengths.text());
}

}  // namespace

void LineFile::add(const RowTable& rows, std::span<const Piece> line) { file_.append(json_line(rows, line)); }

void write_lines(const std::filesystem::path& path, const RowTable& rows, const Lines& lines) {
  LineFile file(path);
  for (int64_t i = 0; i < lines.size(); ++i) file.add(rows, lines.line(i));
  file.commit();
}

}  // namespace spillway::data

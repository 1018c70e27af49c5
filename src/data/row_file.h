// The file that `spillway preprocess` writes of SFT rows.
#pragma once

#include <filesystem>
#include <span>

#include "data/packing/lines.h"
#include "io/file.h"

namespace spillway::data {

// Writes a JSON object per line of tokens, as the trainer takes it: input_ids, labels, position_ids and seq_lengths.
// The file appears when it is complete.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& path) : file_(path) {}
  void add(const RowTable& rows, std::span<const Piece> line);
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
};
void write_lines(const std::filesystem::path& path, const RowTable& rows, const Lines& lines);

}  // namespace spillway::data

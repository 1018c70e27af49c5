// What `spillway preprocess` writes of SFT rows.
#pragma once

#include <filesystem>

#include "data/packing/lines.h"

namespace spillway::data {

// A line of JSON a line of tokens, as the trainer takes it: input_ids, labels, position_ids and seq_lengths. The file
// appears when it is complete.
void write_lines(const std::filesystem::path& path, const RowTable& rows, const Lines& lines);

}  // namespace spillway::data

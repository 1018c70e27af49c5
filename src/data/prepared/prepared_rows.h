// Tokenised rows that stay on disk between runs, and are memory-mapped.
//
// A folder BASE/HASH holds ids.bin and a file for each column (COLUMN.bin), i32, offsets.bin (i64) and prepared.json:
// the input of the rows, their counts and columns, and size and checksum of each file. HASH is that of the text that
// identifies the input, so that other data, options or tokenizers get other folders. The folder appears complete or not
// at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "data/dataset.h"

namespace spillway::data {

struct PreparedRows {
  Dataset dataset;
  std::filesystem::path folder;
  bool reused = false;
};

// Returns the rows that were prepared from `identity` before, or prepares those that `read` adds to the sink. A damaged
// folder is made anew, with a log line that says what was wrong. Several processes may prepare the same rows at the
// same time: all use the rows of the first to finish. Throws what `read` throws, and MachineError if the rows cannot be
// written. `schema` is that of the rows, and must outlive them.
[[nodiscard]] PreparedRows prepare_rows(const std::filesystem::path& base, std::string_view identity, RowSchema schema,
                                        const std::function<DatasetSummary(RowSink&)>& read);

}  // namespace spillway::data

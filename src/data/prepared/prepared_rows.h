// Tokenised rows that stay on disk from run to run, and are read through a mapping.
//
// A folder BASE/HASH holds ids.bin and a file for each column (COLUMN.bin), i32, offsets.bin (i64) and prepared.json:
// what the rows were made from, their counts and columns, and size and checksum of each file. HASH is that of the text
// that says what the rows were made from, so other data, options or tokenizers have folders of their own. The folder
// appears complete or not at all.
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

// The rows that were prepared from `identity` before, or those that `read` puts into the sink now. A folder that is
// damaged is made anew, with a line that says what was wrong with it. Several processes may prepare the same rows at
// the same time: the rows of the first to finish are everyone's. Throws what `read` throws, and MachineError where the
// disk cannot take the rows. `schema` is that of the rows, and outlives them.
[[nodiscard]] PreparedRows prepare_rows(const std::filesystem::path& base, std::string_view identity, RowSchema schema,
                                        const std::function<DatasetSummary(RowSink&)>& read);

}  // namespace spillway::data

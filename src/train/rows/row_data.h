// The data of runs over rows of text.
#pragma once

#include <memory>

#include "train/run_data.h"

namespace spillway::train {

// Creates the data of rows in memory, or of a stream of them. Borrows job and data.
[[nodiscard]] std::unique_ptr<RunData> make_row_data(const Job& job, const TrainingData& data, DataListeners listeners);

}  // namespace spillway::train

// The records of a dataset: all its files, cut to its split and its shard, as often as its weight says.
#pragma once

#include "data/dataset_options.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// In the order of the files. Rows must be counted first, by reading the files once more, where the split has a
// percentage or counts from the end. `skip` leaves out the first rows of the split; `shards` deals the others out in
// turn, and shards_idx is the part that stays. A weight of 0.5 takes every other row, one of 2 every row twice. Throws
// InputError, also while it reads.
[[nodiscard]] RecordReader open_dataset(const DatasetConfig& config);

}  // namespace spillway::data

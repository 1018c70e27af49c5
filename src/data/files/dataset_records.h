// The records of a dataset: all its files, cut to its split and its shard, as often as its weight says.
#pragma once

#include <span>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// In the order of the files. Rows must be counted first, by reading the files once more, where the split has a
// percentage or counts from the end. `skip` leaves out the first rows of the split; `shards` deals the others out in
// turn, and shards_idx is the part that stays. A weight of 0.5 takes every other row, one of 2 every row twice. Throws
// InputError, also while it reads.
[[nodiscard]] RecordReader open_dataset(const DatasetConfig& config);

// One for each, cut to its `fraction`: as in TRL, fractions are made to add up to 1, and of every dataset the first
// rows are taken, so many that all have their fractions of the whole and none has more rows than there are. With
// fractions the datasets are read once before, to count rows. REQUIRES: all have a fraction or none has, and not all
// are 0.
[[nodiscard]] std::vector<RecordReader> open_datasets(std::span<const DatasetConfig> configs);

}  // namespace spillway::data

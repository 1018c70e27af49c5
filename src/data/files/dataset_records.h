// The records of a dataset: those of all its files, cut to its split and shard, repeated by its weight.
#pragma once

#include <span>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// Opens the records in the order of the files. If the split has a percentage or counts from the end, counts the rows
// first by reading the files once more. `skip` leaves out the first rows of the split; `shards` deals out the others in
// turn, and shards_idx is the part to keep. A weight of 0.5 takes every other row, one of 2 every row twice. Throws
// InputError, also while reading.
[[nodiscard]] RecordReader open_dataset(const DatasetConfig& config);

// Opens each dataset, cut to its `fraction`. As in TRL, fractions are scaled to add up to 1, and the first rows of
// every dataset are taken, as many as possible such that all have their fractions of the whole. With fractions, the
// datasets are read once before to count rows. REQUIRES: all have a fraction or none has, and not all are 0.
[[nodiscard]] std::vector<RecordReader> open_datasets(std::span<const DatasetConfig> configs);

}  // namespace spillway::data

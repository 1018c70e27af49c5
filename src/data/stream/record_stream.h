// The records of several datasets as one stream, shuffled with a bounded buffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// The shuffle buffer: each record is taken at random from a buffer that is kept full, so that it comes at most about
// `records` records early; fewer if records are large.
struct ShuffleBuffer {
  int64_t records = 0;  // 0: records come in the order of the files
  int64_t bytes = int64_t{256} << 20;
  uint64_t seed = 42;
};

// Thrown when a stream is stopped before its end.
struct StreamStopped {};

// Opens the datasets one after the other; Record::source is the index of its dataset. The order depends only on seed
// and epoch. Borrows the configs. Throws InputError, also while reading, and StreamStopped as soon as `stop`, if given,
// is set.
[[nodiscard]] RecordReader open_record_stream(std::span<const DatasetConfig> configs, const ShuffleBuffer& buffer,
                                              int64_t epoch, const std::atomic<bool>* stop = nullptr);

}  // namespace spillway::data

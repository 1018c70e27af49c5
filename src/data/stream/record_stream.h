// The records of several datasets as one stream, shuffled as far as a buffer reaches.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// What is shuffled: a record comes out of a buffer that is kept full, at random, so that it can come at most about so
// many records early. Fewer where they are large.
struct ShuffleBuffer {
  int64_t records = 0;  // 0: records come in the order of the files
  int64_t bytes = int64_t{256} << 20;
  uint64_t seed = 42;
};

// Nobody wants the rest of a stream.
struct StreamStopped {};

// The datasets one after the other; Record::source is the index of its dataset. The order depends on seed and epoch
// alone. Borrows the configs. Throws InputError, also while it reads; and where there is a `stop`, StreamStopped as
// soon as that is set.
[[nodiscard]] RecordReader open_record_stream(std::span<const DatasetConfig> configs, const ShuffleBuffer& buffer,
                                              int64_t epoch, const std::atomic<bool>* stop = nullptr);

}  // namespace spillway::data

// Makes rows from records on all cores: one thread reads, many build, and rows arrive in the order of the records,
// whatever the number of threads.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/ordered_workers.h"
#include "data/files/record_reader.h"
#include "data/rows/row_builder.h"
#include "data/rows/row_collector.h"

namespace spillway::data {

// The limit of the memory of records that wait; a single record may be larger.
constexpr int64_t kMaxBytesInFlight = int64_t{64} << 20;

// Must be fed by one thread. Borrows the collector.
class RowPipeline {
 public:
  // Calls `progress`, if there is one, now and then with the number of records that have become rows.
  RowPipeline(int threads, RowCollector& collector, std::function<void(int64_t records)> progress);

  // Builds the rows of all records of the reader; the builder must outlive finish(). If there are several errors,
  // throws the first in the order of the files.
  void read(RecordReader& reader, const RowBuilder& builder);
  // Waits for the remaining rows.
  void finish();

 private:
  // Records that are being processed. The content of a chunk does not depend on the number of threads.
  struct Chunk {
    const RowBuilder* builder = nullptr;
    std::vector<Record> records;
    int64_t bytes = 0;  // that the records hold, about
    std::vector<Row> rows;
    std::vector<size_t> row_ends;  // [records built] into rows
    std::exception_ptr error;      // of the record behind the last built
  };

  static void build(Chunk& chunk);
  // Returns false at the reader's end; the chunk may hold records nevertheless.
  [[nodiscard]] bool fill(RecordReader& reader, Chunk& chunk);
  void collect_oldest();

  RowCollector& collector_;
  std::function<void(int64_t)> progress_;
  int64_t bytes_in_flight_ = 0;
  OrderedWorkers<Chunk> workers_;
};

}  // namespace spillway::data

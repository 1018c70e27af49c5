// From records to rows on all cores: one thread reads, many build, and rows arrive in the order of the records,
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

// Of records that wait in memory; a single one may be larger.
constexpr int64_t kMaxBytesInFlight = int64_t{64} << 20;

// One thread feeds it. Borrows the collector.
class RowPipeline {
 public:
  // `progress`, where there is one, is told now and then how many records have become rows.
  RowPipeline(int threads, RowCollector& collector, std::function<void(int64_t records)> progress);

  // Builds the rows of all records that the reader has; the builder must outlive finish(). Of several things that are
  // wrong the first in the order of the files is thrown.
  void read(RecordReader& reader, const RowBuilder& builder);
  // Waits for the rest.
  void finish();

 private:
  // Records on their way; what a chunk holds does not depend on the number of threads.
  struct Chunk {
    const RowBuilder* builder = nullptr;
    std::vector<Record> records;
    int64_t bytes = 0;  // that the records hold, about
    std::vector<Row> rows;
    std::vector<size_t> row_ends;  // [records built] into rows
    std::exception_ptr error;      // of the record behind the last built
  };

  static void build(Chunk& chunk);
  // False where the reader came to its end; the chunk may hold records all the same.
  [[nodiscard]] bool fill(RecordReader& reader, Chunk& chunk);
  void collect_oldest();

  RowCollector& collector_;
  std::function<void(int64_t)> progress_;
  int64_t bytes_in_flight_ = 0;
  OrderedWorkers<Chunk> workers_;
};

}  // namespace spillway::data

#include "data/rows/row_pipeline.h"

#include "base/interrupt.h"
#include "data/files/record_size.h"

namespace spillway::data {
namespace {

constexpr int64_t kChunkBytes = int64_t{128} << 10;
constexpr size_t kChunkRecords = 256;

}  // namespace

RowPipeline::RowPipeline(int threads, RowCollector& collector, std::function<void(int64_t)> progress)
    : collector_(collector), progress_(std::move(progress)), workers_(threads, build) {}

void RowPipeline::build(Chunk& chunk) {
  try {
    for (const Record& record : chunk.records) {
      chunk.builder->build(record, chunk.rows);
      chunk.row_ends.push_back(chunk.rows.size());
    }
  } catch (...) {
    chunk.error = std::current_exception();
  }
}

bool RowPipeline::fill(RecordReader& reader, Chunk& chunk) {
  while (chunk.bytes < kChunkBytes && chunk.records.size() < kChunkRecords) {
    Record record;
    if (!reader.next(record)) return false;
    chunk.bytes += held_bytes(record);
    chunk.records.push_back(std::move(record));
  }
  return true;
}

void RowPipeline::read(RecordReader& reader, const RowBuilder& builder) {
  for (bool more = true; more;) {
    check_interrupt();
    auto chunk = std::make_unique<Chunk>();
    chunk->builder = &builder;
    std::exception_ptr broken;
    try {
      more = fill(reader, *chunk);
    } catch (...) {
      broken = std::current_exception();
    }
    while (!workers_.empty() && bytes_in_flight_ + chunk->bytes > kMaxBytesInFlight) collect_oldest();
    bytes_in_flight_ += chunk->bytes;
    workers_.push(std::move(chunk));
    if (!broken) continue;
    finish();  // what stands before the broken record comes first, with its errors
    std::rethrow_exception(broken);
  }
}

void RowPipeline::finish() {
  while (!workers_.empty()) collect_oldest();
}

void RowPipeline::collect_oldest() {
  const std::unique_ptr<Chunk> chunk = workers_.pop();
  bytes_in_flight_ -= chunk->bytes;
  size_t row = 0;
  for (size_t i = 0; i < chunk->row_ends.size(); ++i) {
    collector_.add_record(chunk->records[i].copy);
    for (; row < chunk->row_ends[i]; ++row) collector_.add(std::move(chunk->rows[row]), chunk->records[i].where);
  }
  if (chunk->error) std::rethrow_exception(chunk->error);
  if (progress_) progress_(collector_.summary().rows_read);
}

}  // namespace spillway::data

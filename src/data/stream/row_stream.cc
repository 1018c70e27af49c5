#include "data/stream/row_stream.h"

#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "data/files/dataset_files.h"
#include "data/files/record_size.h"

namespace spillway::data {
namespace {

// Builds each record with the builder of its dataset.
class BuilderOfEach : public RowBuilder {
 public:
  BuilderOfEach(std::span<const DatasetConfig> datasets, const RowOptions& options, const text::Tokenizer& tokenizer) {
    for (const DatasetConfig& dataset : datasets) builders_.push_back(make_row_builder(dataset, options, tokenizer));
  }
  void build(const Record& record, std::vector<Row>& rows) const override {
    nth(builders_, record.source)->build(record, rows);
  }

 private:
  std::vector<std::unique_ptr<RowBuilder>> builders_;
};

}  // namespace

int64_t max_bytes(const StreamOptions& options) {
  constexpr int64_t kTextBytesPerToken = 4, kRowBytesPerToken = 2 * sizeof(int32_t), kBlocks = 2;
  const int64_t shuffled = options.shuffle.records > 1 ? options.shuffle.bytes : 0;
  const int64_t blocks = kBlocks * (options.block_bytes / kTextBytesPerToken * kRowBytesPerToken);
  return shuffled + kMaxBytesInFlight + blocks;
}

StreamSource::StreamSource(std::vector<DatasetConfig> datasets, StreamOptions options,
                           std::shared_ptr<const text::Tokenizer> tokenizer)
    : datasets_(std::move(datasets)),
      options_(std::move(options)),
      tokenizer_(std::move(tokenizer)),
      builder_(std::make_unique<BuilderOfEach>(datasets_, options_.rows, *tokenizer_)) {
  for (const DatasetConfig& dataset : datasets_) (void)dataset_files(dataset);
}

// An epoch's records, a block at a time.
class RowStream::Records : public RecordParser {
 public:
  Records(const StreamSource& source, int64_t epoch, const std::atomic<bool>* stop)
      : options_(source.options()), records_(open_record_stream(source.datasets(), options_.shuffle, epoch, stop)) {}

  void begin_block() { count_ = bytes_ = 0; }
  bool next(Record& record) override {
    if (count_ == options_.block_records || bytes_ >= options_.block_bytes || !records_.next(record)) return false;
    ++count_;
    bytes_ += held_bytes(record);
    return true;
  }
  // Records of the block so far.
  [[nodiscard]] int64_t count() const { return count_; }

 private:
  const StreamOptions& options_;
  RecordReader records_;
  int64_t count_ = 0, bytes_ = 0;
};

void RowStream::Sink::add(const Row& row) {
  if (!joins_) return rows_->add(row);
  const int64_t size = std::ssize(row.input_ids) + 1;
  if (filled_ + size > capacity_ && filled_ > 0) {
    rows_->add(std::exchange(joined_, {}));
    filled_ = 0;
  }
  joined_.input_ids.insert(joined_.input_ids.end(), row.input_ids.begin(), row.input_ids.end());
  joined_.labels.insert(joined_.labels.end(), row.labels.begin(), row.labels.end());
  filled_ += size;
}

RowTable RowStream::Sink::take() {
  if (filled_ > 0) rows_->add(std::exchange(joined_, {}));
  filled_ = 0;
  return RowTable(std::exchange(rows_, std::make_shared<MemoryRows>()));
}

RowStream::RowStream(std::shared_ptr<const StreamSource> source, const StreamPosition& from,
                     const std::atomic<bool>* stop)
    : source_(std::move(source)),
      stop_(stop),
      sink_(source_->options().rows),
      collector_(source_->options().rows, sink_),
      pipeline_(source_->options().threads, collector_, {}) {
  begin_epoch(from.epoch);
  Record record;
  for (; at_.block < from.block; ++at_.block) {
    records_->begin_block();
    while (reader_->next(record)) {
    }
    if (records_->count() > 0) continue;
    throw input_error("datasets",
                      "expected at least the {} blocks of rows that the checkpoint has seen of them, got {}; resume "
                      "with the data that wrote it",
                      from.block, at_.block);
  }
  has_lines_ = at_.block > 0;
}

void RowStream::begin_epoch(int64_t epoch) {
  at_ = {.epoch = epoch};
  has_lines_ = false;
  auto records = std::make_unique<Records>(*source_, epoch, stop_);
  records_ = records.get();
  reader_.emplace(std::move(records));
}

void RowStream::warn_of_left_out() {
  const DatasetSummary& read = collector_.summary();
  if (has_warned_ || !read.left_out.any()) return;
  has_warned_ = true;
  log_warning("datasets, as far as they are read: {}", left_out_warning(read.left_out, read.rows));
}

RowBlock RowStream::next() {
  for (;;) {
    records_->begin_block();
    pipeline_.read(*reader_, source_->builder());
    pipeline_.finish();
    warn_of_left_out();
    if (records_->count() == 0) {
      if (!has_lines_) throw no_rows(source_->datasets(), collector_.summary());
      begin_epoch(at_.epoch + 1);
      continue;
    }
    RowBlock block{.rows = sink_.take(), .first = at_};
    ++at_.block;
    if (block.rows.empty()) continue;
    const StreamOptions& options = source_->options();
    if (options.inspect) options.inspect(block.rows);
    // Every block of a run is packed and shuffled with different random numbers.
    constexpr int kBlockBits = 32;
    block.lines = plan_epoch(block.rows, options.batches, (block.first.epoch << kBlockBits) + block.first.block).lines;
    has_lines_ = true;
    return block;
  }
}

}  // namespace spillway::data

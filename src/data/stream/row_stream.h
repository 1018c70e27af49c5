// Rows that are read, tokenised and packed as they are needed, in bounded memory: for data that are too many to hold,
// or that are never read to their end.
//
// A stream is a sequence of blocks. A block is what becomes of so many records of the shuffled datasets, packed by
// itself; where the data end, the next epoch begins in another order. What a block holds is a pure function of the
// data, the options and its place, so that a run is resumed at a StreamPosition, not with a copy of what was in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/rows/row_pipeline.h"
#include "data/stream/record_stream.h"

namespace spillway::data {

struct StreamOptions {
  RowOptions rows;
  BatchOptions batches;  // how the lines of a block are made; a share of the seed is the block's own
  ShuffleBuffer shuffle;
  int64_t block_records = 1000;
  int64_t block_bytes = int64_t{64} << 20;  // a block ends earlier where its records hold more
  int threads = 1;
  std::function<void(const RowTable& rows)> inspect{};  // told of each block's rows by the thread that reads; may throw
};

// What a stream of long records holds at most, about: its shuffle buffer, records that are being tokenised, the block
// that is fed and the one behind it, with text of four bytes per token.
[[nodiscard]] int64_t max_bytes(const StreamOptions& options);

// Where a line of a stream is.
struct StreamPosition {
  int64_t epoch = 0, block = 0, line = 0;  // of all epochs, of the epoch, of the block
  std::string rows_checksum{};             // RowTable::checksum of the block; empty: not known

  bool operator==(const StreamPosition&) const = default;
};

struct RowBlock {
  RowTable rows;
  Lines lines;
  StreamPosition first;  // of lines
};

// What streams are made from. Immutable; any number of streams on any threads.
class StreamSource {
 public:
  // Throws InputError for datasets that are not there and for types that do not exist.
  StreamSource(std::vector<DatasetConfig> datasets, StreamOptions options,
               std::shared_ptr<const text::Tokenizer> tokenizer);
  StreamSource(StreamSource&&) = delete;

  [[nodiscard]] const std::vector<DatasetConfig>& datasets() const { return datasets_; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  // For records of any of the datasets.
  [[nodiscard]] const RowBuilder& builder() const { return *builder_; }

 private:
  std::vector<DatasetConfig> datasets_;
  StreamOptions options_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<RowBuilder> builder_;
};

// One thread, and those that tokenise.
class RowStream {
 public:
  // Begins with the block of `from`, whose line does not matter. The records before it are read over. Where there is a
  // `stop`, reading throws StreamStopped soon after it is set, the constructor's included.
  explicit RowStream(std::shared_ptr<const StreamSource> source, const StreamPosition& from = {},
                     const std::atomic<bool>* stop = nullptr);
  RowStream(RowStream&&) = delete;

  // Has lines. Throws InputError for what is wrong with a record, and where a whole epoch has no row.
  [[nodiscard]] RowBlock next();
  // Of what was read and not read over.
  [[nodiscard]] const DatasetSummary& summary() const { return collector_.summary(); }

 private:
  class Records;
  // Rows on their way to the block, joined where the options say so.
  class Sink : public RowSink {
   public:
    explicit Sink(const RowOptions& options)
        : joins_(options.pretrain_text == PretrainText::kJoined), capacity_(options.sequence_len) {}
    void add(const Row& row) override;
    // The rows since the last call.
    [[nodiscard]] RowTable take();

   private:
    bool joins_;
    int64_t capacity_;
    std::shared_ptr<MemoryRows> rows_ = std::make_shared<MemoryRows>();
    Row joined_;
    int64_t filled_ = 0;  // tokens of joined_, with a place between texts that axolotl fills with padding
  };

  void begin_epoch(int64_t epoch);
  // Logs once what chat templates leave out of the rows so far.
  void warn_of_left_out();

  std::shared_ptr<const StreamSource> source_;
  const std::atomic<bool>* stop_;
  Sink sink_;
  RowCollector collector_;
  RowPipeline pipeline_;
  StreamPosition at_;       // of the next block
  bool has_lines_ = false;  // this epoch
  bool has_warned_ = false;
  Records* records_ = nullptr;
  std::optional<RecordReader> reader_;  // of records_
};

}  // namespace spillway::data

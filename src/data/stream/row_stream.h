// Rows that are read, tokenised and packed as they are needed, in bounded memory: for data that are too large to hold,
// or that are never read to their end.
//
// A stream is a sequence of blocks. A block is made of a number of records of the shuffled datasets, packed by itself;
// at the end of the data the next epoch begins in another order. The content of a block is a pure function of the data,
// the options and its place, so that a run resumes from a StreamPosition without a copy of the memory.
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

// Returns the approximate maximum of the memory of a stream of long records: its shuffle buffer, records that are being
// tokenised, the current block and the next one, with text of four bytes per token.
[[nodiscard]] int64_t max_bytes(const StreamOptions& options);

// The position of a line in a stream.
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

// The inputs of streams. Immutable; any number of streams on any threads may use it.
class StreamSource {
 public:
  // Throws InputError for missing datasets and unknown types.
  StreamSource(std::vector<DatasetConfig> datasets, StreamOptions options,
               std::shared_ptr<const text::Tokenizer> tokenizer);
  StreamSource(StreamSource&&) = delete;

  [[nodiscard]] const std::vector<DatasetConfig>& datasets() const { return datasets_; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  // The builder for records of any of the datasets.
  [[nodiscard]] const RowBuilder& builder() const { return *builder_; }

 private:
  std::vector<DatasetConfig> datasets_;
  StreamOptions options_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<RowBuilder> builder_;
};

// Not thread-safe; has its own threads that tokenise.
class RowStream {
 public:
  // Begins with the block of `from`, whose line does not matter, and skips the records before it. If `stop` is given,
  // reading, also in the constructor, throws StreamStopped soon after it is set.
  explicit RowStream(std::shared_ptr<const StreamSource> source, const StreamPosition& from = {},
                     const std::atomic<bool>* stop = nullptr);
  RowStream(RowStream&&) = delete;

  // Returns the next block, which has lines. Throws InputError for an invalid record, and if a whole epoch has no row.
  [[nodiscard]] RowBlock next();
  // Returns the summary of what was read and not skipped.
  [[nodiscard]] const DatasetSummary& summary() const { return collector_.summary(); }

 private:
  class Records;
  // Rows on their way to the block, joined if the options say so.
  class Sink : public RowSink {
   public:
    explicit Sink(const RowOptions& options)
        : joins_(options.pretrain_text == PretrainText::kJoined), capacity_(options.sequence_len) {}
    void add(const Row& row) override;
    // Returns the rows since the last call.
    [[nodiscard]] RowTable take();

   private:
    bool joins_;
    int64_t capacity_;
    std::shared_ptr<MemoryRows> rows_ = std::make_shared<MemoryRows>();
    Row joined_;
    int64_t filled_ = 0;  // tokens of joined_, with a place between texts that axolotl fills with padding
  };

  void begin_epoch(int64_t epoch);
  // Logs once which parts chat templates have left out of the rows so far.
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

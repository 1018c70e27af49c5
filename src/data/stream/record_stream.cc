#include "data/stream/record_stream.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/math.h"
#include "base/random.h"
#include "data/files/dataset_records.h"
#include "data/files/record_size.h"

namespace spillway::data {
namespace {

constexpr uint64_t kShuffleStream = 0x73747265616D0000;

class RecordsInTurn : public RecordParser {
 public:
  RecordsInTurn(std::span<const DatasetConfig> configs, const std::atomic<bool>* stop)
      : configs_(configs), stop_(stop) {}

  bool next(Record& record) override {
    if (stop_ != nullptr && *stop_) throw StreamStopped();
    for (;;) {
      if (!reader_) {
        if (dataset_ == std::ssize(configs_)) return false;
        reader_.emplace(open_dataset(nth(configs_, dataset_++)));
      }
      if (reader_->next(record)) {
        record.source = narrow<int32_t>(dataset_ - 1);
        return true;
      }
      reader_.reset();
    }
  }

 private:
  std::span<const DatasetConfig> configs_;
  const std::atomic<bool>* stop_;
  int64_t dataset_ = 0;  // the next one
  std::optional<RecordReader> reader_;
};

class ShuffledRecords : public RecordParser {
 public:
  ShuffledRecords(std::unique_ptr<RecordParser> records, const ShuffleBuffer& buffer, int64_t epoch)
      : records_(std::move(records)),
        limits_(buffer),
        random_(buffer.seed, kShuffleStream + static_cast<uint64_t>(epoch)) {}

  bool next(Record& record) override {
    while (!is_full()) {
      Item item;
      if (!records_->next(item.record)) break;
      item.bytes = held_bytes(item.record);
      bytes_ += item.bytes;
      held_.push_back(std::move(item));
    }
    if (held_.empty()) return false;
    std::swap(held_[random_.below(narrow<uint32_t>(held_.size()))], held_.back());
    bytes_ -= held_.back().bytes;
    record = std::move(held_.back().record);
    held_.pop_back();
    return true;
  }

 private:
  struct Item {
    Record record;
    int64_t bytes = 0;
  };

  [[nodiscard]] bool is_full() const {
    return !held_.empty() && (std::ssize(held_) >= limits_.records || bytes_ >= limits_.bytes);
  }

  std::unique_ptr<RecordParser> records_;
  ShuffleBuffer limits_;
  RandomStream random_;
  std::vector<Item> held_;
  int64_t bytes_ = 0;
};

}  // namespace

RecordReader open_record_stream(std::span<const DatasetConfig> configs, const ShuffleBuffer& buffer, int64_t epoch,
                                const std::atomic<bool>* stop) {
  auto records = std::make_unique<RecordsInTurn>(configs, stop);
  if (buffer.records <= 1) return RecordReader(std::move(records));
  return RecordReader(std::make_unique<ShuffledRecords>(std::move(records), buffer, epoch));
}

}  // namespace spillway::data

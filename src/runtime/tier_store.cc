#include "runtime/tier_store.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/math.h"
#include "base/sizes.h"

namespace spillway {
namespace {

// Large enough for a disk's full speed; a multiple of kDiskAlignment and of every dtype's size.
constexpr int64_t kPieceBytes = 8 * kMiB;

Arena piece_buffer(const ValueType& type) {
  return {"host", std::min(align_up(type.bytes(), kDiskAlignment), kPieceBytes)};
}

}  // namespace

// Collects pieces of kPieceBytes if the value is not in memory.
class TierStore::TierWriter final : public Writer {
 public:
  TierWriter(TierStore& store, ValueId id)
      : store_(store), id_(id), type_(store.loaded_.graph().value(id).type), direct_(store.is_in_host_memory(id)) {
    if (!direct_) buffer_.emplace(piece_buffer(type_));
  }

  void append(const void* elements, int64_t count) override {
    const auto* from = static_cast<const std::byte*>(elements);
    int64_t bytes = count * size_of(type_.dtype);
    SPILLWAY_CHECK(done_ + bytes <= type_.bytes(), "{} more bytes after {} of {}", bytes, done_, type_.bytes());
    if (direct_) {
      const Place& home = store_.loaded_.home_of(id_);
      copy_memory(static_cast<std::byte*>(store_.loaded_.view({id_, home}).data) + done_, from, bytes);
      done_ += bytes;
      return;
    }
    while (bytes > 0) {
      const int64_t filled = done_ % kPieceBytes, part = std::min(bytes, kPieceBytes - filled);
      copy_memory(buffer_->at(filled), from, part);
      from += part;
      bytes -= part;
      done_ += part;
      if (done_ % kPieceBytes == 0 || done_ == type_.bytes())
        store_.store_piece(id_, done_ - (filled + part), filled + part, buffer_->at(0));
    }
  }

 private:
  TierStore& store_;
  ValueId id_;
  const ValueType& type_;
  bool direct_;
  std::optional<Arena> buffer_;
  int64_t done_ = 0;  // bytes
};

std::unique_ptr<ValueStore::Writer> TierStore::writer(ValueId id) {
  SPILLWAY_CHECK(!is_in_files(id), "{} is in the user's files", loaded_.graph().value(id).name);
  return std::make_unique<TierWriter>(*this, id);
}

void TierStore::read(ValueId id, const Visitor& use) { for_each_piece(id, true, use); }

void TierStore::write(ValueId id, const Visitor& fill) {
  SPILLWAY_CHECK(!is_in_files(id), "{} is in the user's files", loaded_.graph().value(id).name);
  for_each_piece(id, false, fill);
}

bool TierStore::is_in_host_memory(ValueId id) const {
  const Tier tier = loaded_.home_of(id).tier;
  return tier == Tier::kHost || (tier == Tier::kDevice && loaded_.device().shares_host_memory());
}

void TierStore::for_each_piece(ValueId id, bool reads, const Visitor& visit) {
  const ValueType& type = loaded_.graph().value(id).type;
  if (is_in_host_memory(id)) {
    visit({loaded_.view({id, loaded_.home_of(id)}).data, type.dtype, {type.shape.elems()}}, 0);
    return;
  }
  // The buffer is released afterwards: between steps its bytes are not the plan's.
  const Arena buffer = piece_buffer(type);
  for (int64_t begin = 0; begin < type.bytes(); begin += kPieceBytes) {
    const int64_t bytes = std::min(kPieceBytes, type.bytes() - begin);
    if (reads) load_piece(id, begin, bytes, buffer.at(0));
    visit({buffer.at(0), type.dtype, {bytes / size_of(type.dtype)}}, begin / size_of(type.dtype));
    if (!reads) store_piece(id, begin, bytes, buffer.at(0));
  }
}

void TierStore::store_piece(ValueId id, int64_t begin, int64_t bytes, std::byte* buffer) {
  const Place& home = loaded_.home_of(id);
  if (home.tier == Tier::kDevice) {
    loaded_.memory().copy_now(static_cast<std::byte*>(loaded_.view({id, home}).data) + begin, buffer, bytes);
    return;
  }
  DiskQueue& queue = loaded_.memory().disk_queue(Lane::kDiskWrite);
  const std::span blocks = span_of(buffer, align_up(bytes, kDiskAlignment));
  queue.wait(queue.write_scratch(home.offset + begin, blocks));
}

void TierStore::load_piece(ValueId id, int64_t begin, int64_t bytes, std::byte* buffer) {
  const Place& home = loaded_.home_of(id);
  if (home.tier == Tier::kDevice) {
    loaded_.memory().copy_now(buffer, static_cast<std::byte*>(loaded_.view({id, home}).data) + begin, bytes);
    return;
  }
  DiskQueue& queue = loaded_.memory().disk_queue(Lane::kDiskRead);
  if (home.tier == Tier::kDisk) {
    const std::span blocks = span_of(buffer, align_up(bytes, kDiskAlignment));
    queue.wait(queue.read_scratch(home.offset + begin, blocks));
    return;
  }
  const FilePlace place = loaded_.memory().file_place(home);
  queue.wait(queue.read_file(place.file, place.offset + begin, span_of(buffer, bytes)));
}

}  // namespace spillway

#include "runtime/tier_store.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace spillway {
namespace {

// Large enough for a disk's full speed; a multiple of kDiskAlignment and of every dtype's size.
constexpr int64_t kPieceBytes = 8 * kMiB;

}  // namespace

void TierStore::read(ValueId id, const Visitor& use) { for_each_piece(id, true, use); }

void TierStore::write(ValueId id, const Visitor& fill) {
  SPILLWAY_CHECK(!is_in_files(id), "{} is in the user's files", loaded_.graph().value(id).name);
  for_each_piece(id, false, fill);
}

void TierStore::for_each_piece(ValueId id, bool reads, const Visitor& visit) {
  const Place& home = loaded_.home_of(id);
  const ValueType& type = loaded_.graph().value(id).type;
  const bool in_device = home.tier == Tier::kDevice && !loaded_.device().shares_host_memory();
  if (home.tier == Tier::kHost || (home.tier == Tier::kDevice && !in_device)) {
    visit({loaded_.view({id, home}).data, type.dtype, {type.shape.elems()}}, 0);
    return;
  }
  // Released afterwards: between steps its bytes are not the plan's.
  const Arena buffer("host", std::min(align_up(type.bytes(), kDiskAlignment), kPieceBytes));
  for (int64_t begin = 0; begin < type.bytes(); begin += kPieceBytes) {
    const int64_t bytes = std::min(kPieceBytes, type.bytes() - begin);
    const std::span<std::byte> wanted(buffer.at(0), static_cast<size_t>(bytes)),
        blocks(buffer.at(0), static_cast<size_t>(align_up(bytes, kDiskAlignment)));
    const TensorView piece{buffer.at(0), type.dtype, {bytes / size_of(type.dtype)}};
    const int64_t first_elem = begin / size_of(type.dtype);
    if (in_device) {
      std::byte* const device = static_cast<std::byte*>(loaded_.view({id, home}).data) + begin;
      if (reads) loaded_.memory().copy_now(buffer.at(0), device, bytes);
      visit(piece, first_elem);
      if (!reads) loaded_.memory().copy_now(device, buffer.at(0), bytes);
      continue;
    }
    DiskQueue& queue = loaded_.memory().disk_queue(reads ? Lane::kDiskRead : Lane::kDiskWrite);
    if (!reads) {
      visit(piece, first_elem);
      queue.wait(queue.write_scratch(home.offset + begin, blocks));
    } else if (home.tier == Tier::kDisk) {
      queue.wait(queue.read_scratch(home.offset + begin, blocks));
      visit(piece, first_elem);
    } else {
      const FilePlace place = loaded_.memory().file_place(home);
      queue.wait(queue.read_file(place.file, place.offset + begin, wanted));
      visit(piece, first_elem);
    }
  }
}

}  // namespace spillway

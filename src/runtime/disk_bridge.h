// Transfers between the disk and memory that only a device reaches, through pinned host memory: in pieces, so that the
// disk and the link to the device work at once.
//
// A bridge belongs to one lane. After construction it allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "backend/arena.h"
#include "backend/device.h"
#include "base/bytes.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "io/disk_queue.h"

namespace spillway {

class DiskBridge {
 public:
  explicit DiskBridge(Device& device) : memory_("host", bytes()), pinned_(device.pin(memory())) {
    queue_ = device.make_queue();
    for (std::unique_ptr<DeviceEvent>& event : events_) event = device.make_event();
  }
  DiskBridge(DiskBridge&&) = delete;

  // Returns the bytes of host memory that a bridge takes.
  [[nodiscard]] static constexpr int64_t bytes() { return kSlots * kPieceBytes; }
  [[nodiscard]] std::span<std::byte> memory() const { return span_of(memory_.at(0), memory_.bytes()); }

  // Copies a few bytes of device memory to the host, and returns when they are there.
  void fetch(void* to, const void* from, int64_t bytes) {
    queue_->copy(to, from, bytes);
    queue_->finish();
  }

  // Reads `bytes` into device memory: start(offset, host, bytes) makes the disk read a piece and returns its ticket.
  template <typename Start>
  void read(DiskQueue& disk, std::byte* to, int64_t bytes, const Start& start) {
    const int64_t pieces = div_ceil(bytes, kPieceBytes);
    for (int64_t started = 0, arrived = 0; arrived < pieces; ++arrived) {
      for (; started < std::min(pieces, arrived + kSlots); ++started) {
        if (started >= kSlots) event(started).await();
        ticket(started) = start(started * kPieceBytes, slot(started), piece_bytes(bytes, started));
      }
      disk.wait(ticket(arrived));
      queue_->copy(to + arrived * kPieceBytes, slot(arrived), piece_bytes(bytes, arrived));
      queue_->record(event(arrived));
    }
    queue_->finish();
  }

  // Writes `bytes` of device memory: start(offset, host, bytes) makes the disk write a piece and returns its ticket.
  template <typename Start>
  void write(DiskQueue& disk, const std::byte* from, int64_t bytes, const Start& start) {
    const int64_t pieces = div_ceil(bytes, kPieceBytes);
    for (int64_t copied = 0, started = 0; started < pieces; ++started) {
      for (; copied < std::min(pieces, started + kSlots / 2); ++copied) {
        if (copied >= kSlots) disk.wait(ticket(copied));
        queue_->copy(slot(copied), from + copied * kPieceBytes, piece_bytes(bytes, copied));
        queue_->record(event(copied));
      }
      event(started).await();
      ticket(started) = start(started * kPieceBytes, slot(started), piece_bytes(bytes, started));
    }
    for (int64_t piece = std::max<int64_t>(0, pieces - kSlots); piece < pieces; ++piece) disk.wait(ticket(piece));
  }

 private:
  static constexpr int64_t kSlots = 8, kPieceBytes = 4 * kMiB;

  [[nodiscard]] static int64_t piece_bytes(int64_t bytes, int64_t piece) {
    return std::min(kPieceBytes, bytes - piece * kPieceBytes);
  }
  [[nodiscard]] std::byte* slot(int64_t piece) const { return memory_.at(piece % kSlots * kPieceBytes); }
  [[nodiscard]] DeviceEvent& event(int64_t piece) const { return *nth(events_, piece % kSlots); }
  [[nodiscard]] DiskQueue::Ticket& ticket(int64_t piece) { return nth(tickets_, piece % kSlots); }

  Arena memory_;
  Device::Pinned pinned_;
  std::array<std::unique_ptr<DeviceEvent>, kSlots> events_;
  std::array<DiskQueue::Ticket, kSlots> tickets_{};
  std::unique_ptr<DeviceQueue> queue_;  // last: its destruction waits for work that still uses the others
};

}  // namespace spillway

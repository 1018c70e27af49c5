#include "train/held_group.h"

#include "base/sizes.h"

namespace spillway::train {

void HeldGroup::begin(int64_t most, bool copies) {
  most_ = most;
  copies_ = copies || most > 1;
  streams_.clear();
  views_.clear();
  resize(room_, copies_ ? most : 0);
}

void HeldGroup::add(std::span<const data::MicroBatch> streams) {
  if (copies_) {
    std::vector<data::MicroBatch>& room = room_[streams_.size()];
    room.assign(streams.begin(), streams.end());
    streams = room;
  }
  streams_.push_back(streams);
  views_.emplace_back(streams);
}

}  // namespace spillway::train

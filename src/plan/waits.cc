#include "plan/waits.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/index.h"
#include "base/math.h"
#include "plan/offsets.h"
#include "plan/sorted_runs.h"

namespace spillway {
namespace {

using Clock = std::array<int32_t, kLanes>;  // by lane: a step, or kNone
constexpr Clock kNobody = {kNone, kNone, kNone, kNone, kNone, kNone, kNone};

void raise(Clock& clock, const Clock& other) {
  for (size_t lane = 0; lane < kLanes; ++lane) clock[lane] = std::max(clock[lane], other[lane]);
}

// The last step of each lane that did something. Most bytes are touched by one lane alone.
class LastSteps {
 public:
  void note(Lane lane, int32_t step) {
    nth(steps_, lane) = step;
    lanes_ |= bit(lane);
  }
  // Notes this step and forgets all others.
  void restart(Lane lane, int32_t step) {
    lanes_ = 0;
    note(lane, step);
  }
  void clear() { lanes_ = 0; }
  // Raises a clock to the steps of lanes other than `own`.
  void raise(Clock& clock, Lane own) const {
    for (uint32_t left = lanes_ & ~bit(own); left != 0; left &= left - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(left));
      clock[lane] = std::max(clock[lane], steps_[lane]);
    }
  }

 private:
  static uint32_t bit(Lane lane) { return uint32_t{1} << static_cast<uint32_t>(lane); }

  uint32_t lanes_ = 0;  // a bit each
  Clock steps_{};       // of those
};

// Records which steps last touched which bytes of an arena, by lane. A later step of a lane implies all earlier ones.
class LastAccesses {
 public:
  // Starts without accesses, with bytes split at the ends of `fixed`, which are in order: most accesses are of those.
  void start(std::span<const int64_t> fixed) {
    begins_.assign(fixed);
    segments_.assign(fixed.size(), {});
    free_.clear();
  }

  // Raises `needed` by the steps of other lanes that must have finished before step `i` of `lane` may read (or write)
  // these bytes, and notes the access. Returns the place of the note if it is one place, which remains valid until
  // others are given the bytes; else kNone.
  int32_t access(int64_t offset, int64_t bytes, bool writes, Lane lane, int32_t i, Clock& needed) {
    if (bytes == 0) return kNone;
    split(offset + bytes);
    SortedRuns::Position at = split(offset);
    const int32_t first = begins_.number(at);
    access_at(first, writes, lane, i, needed);
    bool is_one = true;
    for (at = begins_.next(at); at != begins_.end() && begins_.key(at) < offset + bytes;) {
      const int32_t place = begins_.number(at);
      access_at(place, writes, lane, i, needed);
      if (writes) {
        free_.push_back(place);
        at = begins_.erase(at);
      } else {
        is_one = false;
        at = begins_.next(at);
      }
    }
    return is_one ? first : kNone;
  }

  // Returns a place for the notes of bytes that no others share.
  int32_t place_apart() { return place_of({}); }

  // Does the same if all of the bytes are noted at `place`.
  void access_at(int32_t place, bool writes, Lane lane, int32_t i, Clock& needed) {
    Segment& segment = nth(segments_, place);
    segment.writers.raise(needed, lane);
    if (!writes) return segment.readers.note(lane, i);
    segment.readers.raise(needed, lane);
    segment.readers.clear();
    segment.writers.restart(lane, i);
  }

 private:
  struct Segment {
    LastSteps readers, writers;
  };

  // Makes a segment begin at `offset`, and returns its position.
  SortedRuns::Position split(int64_t offset) {
    const SortedRuns::Position at = begins_.lower_bound(offset);
    if (at != begins_.end() && begins_.key(at) == offset) return at;
    const bool is_first = at == SortedRuns::Position{};
    const Segment whole = is_first ? Segment{} : nth(segments_, begins_.number(begins_.previous(at)));
    return begins_.insert(at, offset, place_of(whole));
  }

  int32_t place_of(const Segment& segment) {
    if (free_.empty()) {
      segments_.push_back(segment);
      return static_cast<int32_t>(segments_.size() - 1);
    }
    const int32_t place = free_.back();
    free_.pop_back();
    nth(segments_, place) = segment;
    return place;
  }

  SortedRuns begins_;  // the offset at which each segment begins (it ends at the next one), with its index in segments_
  std::vector<Segment> segments_;
  std::vector<int32_t> free_;  // of segments_
};

class WaitFinder {
 public:
  WaitFinder(const Schedule& schedule, std::span<const int64_t> offsets)
      : schedule_(schedule), offsets_(offsets), is_apart_(offsets.empty()), finished_(schedule.steps.size(), kNobody) {
    for (size_t i = 0; i < offsets.size(); ++i) {
      const Buffer& b = schedule.buffers[i];
      if (!b.fixed) continue;
      std::vector<int64_t>& ends = nth(fixed_, b.tier);
      for (const int64_t end : {offsets[i], offsets[i] + b.bytes, offsets[i] + b.padded_bytes()}) {
        if (ends.empty() || end > ends.back()) ends.push_back(end);
      }
    }
  }

  Waits run() {
    for (const SectionRange& section : schedule_.sections) {
      for (size_t tier = 0; tier < kTiers; ++tier) tiers_[tier].start(fixed_[tier]);
      known_.fill(kNobody);
      places_.assign(schedule_.buffers.size(), kNone);
      for (int32_t i = section.begin; i < section.end; ++i) add_waits(i);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Step& step(int32_t i) const { return nth(schedule_.steps, i); }
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return nth(schedule_.buffers, id); }

  // Returns the steps that must have finished for step `i`.
  [[nodiscard]] Clock needed_by(int32_t i) {
    const Step& step = this->step(i);
    const std::span<const BufferId> inputs = schedule_.inputs(step), outputs = schedule_.outputs(step);
    const bool padded =
        step.op == kNone && (buffer(inputs[0]).tier == Tier::kDisk || buffer(outputs[0]).tier == Tier::kDisk);
    Clock needed = kNobody;
    // The last block is read to its end, too: its content does not matter, but checksums need it to stay the same.
    const auto access = [&](BufferId id, bool writes) {
      if (id == kNone || buffer(id).bytes == 0) return;
      const Buffer& b = buffer(id);
      const bool moves = step.op == kNone && (id == inputs[0] || id == outputs[0]);  // not the offsets of its guard
      const int64_t bytes = padded && moves ? align_up(b.bytes, kDiskAlignment) : b.bytes;
      LastAccesses& tier = nth(tiers_, b.tier);
      // A buffer's bytes are its own while it lives.
      int32_t& place = nth(places_, id);
      if (is_apart_ && place == kNone) place = tier.place_apart();
      if (place != kNone && (is_apart_ || bytes == b.bytes)) return tier.access_at(place, writes, step.lane, i, needed);
      const int32_t noted = tier.access(nth(offsets_, id), bytes, writes, step.lane, i, needed);
      place = bytes == b.bytes ? noted : kNone;
    };
    for (const BufferId input : inputs) access(input, false);
    access(step.workspace, true);
    for (const BufferId output : outputs) access(output, true);
    return needed;
  }

  void add_waits(int32_t i) {
    const Clock needed = needed_by(i);
    const auto own = static_cast<size_t>(step(i).lane);
    Clock& known = known_[own];
    found_.clear();
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (lane != own && needed[lane] > known[lane]) found_.push_back(needed[lane]);
    }
    std::erase_if(found_, [&](int32_t wait) { return is_implied(wait); });
    for (const int32_t wait : found_) raise(known, nth(finished_, wait));
    known[own] = i;
    nth(finished_, i) = known;
    result_.add(found_);
  }

  // Returns true if another wait has seen this one finish.
  [[nodiscard]] bool is_implied(int32_t wait) const {
    const Lane lane = step(wait).lane;
    return std::any_of(found_.begin(), found_.end(),
                       [&](int32_t other) { return other != wait && nth(nth(finished_, other), lane) >= wait; });
  }

  const Schedule& schedule_;
  std::span<const int64_t> offsets_;
  bool is_apart_;                                   // no two buffers share bytes
  std::array<std::vector<int64_t>, kTiers> fixed_;  // the offsets at which fixed buffers begin and end
  std::array<LastAccesses, kTiers> tiers_;
  std::vector<int32_t> places_;        // by buffer: where accesses of all its bytes are noted, kNone where in several
  std::array<Clock, kLanes> known_{};  // by lane: what has finished when its next step starts
  std::vector<Clock> finished_;        // by step: what has finished when it has
  std::vector<int32_t> found_;         // waits of the step at hand
  Waits result_;
};

}  // namespace

Waits find_waits(const Schedule& schedule, std::span<const int64_t> offsets) {
  const bool one_lane = std::all_of(schedule.steps.begin(), schedule.steps.end(),
                                    [](const Step& step) { return step.lane == Lane::kCompute; });
  return one_lane ? Waits() : WaitFinder(schedule, offsets).run();
}

}  // namespace spillway

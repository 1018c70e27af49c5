#include "io/testing/faulty_backend.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/sizes.h"

namespace spillway::testing {
namespace {

constexpr int64_t kPage = 4096;

}  // namespace

FaultyBackend::FaultyBackend(std::unique_ptr<DiskBackend> inner, const DiskFaults& faults, int32_t depth)
    : inner_(std::move(inner)), faults_(faults), random_(faults.seed, 0), by_slot_(make_vector<Started>(depth)) {
  held_.reserve(by_slot_.size());
}

void FaultyBackend::start(int32_t slot, const DiskBlock& block) {
  Started& started = nth(by_slot_, slot);
  started = {.asked = block.bytes};
  if (started_++ == faults_.fail_at) {
    held_.push_back({slot, -faults_.error});
    return;
  }
  DiskBlock moved = block;
  // Shortens to whole pages, as O_DIRECT requires.
  const uint32_t pages = static_cast<uint32_t>(block.bytes / kPage);
  if (pages > 1 && happens(faults_.shorten)) moved.bytes = kPage * (1 + random_.below(pages - 1));
  if (pages > 1 && block.direction == DiskDirection::kWrite && happens(faults_.tear)) {
    moved.bytes = kPage * (pages / 2);
    started.claimed = block.bytes;
  }
  ++inside_;
  inner_->start(slot, moved);
}

// A short result need not end at a page.
void FaultyBackend::take(Completion completion) {
  --inside_;
  const Started& started = nth(by_slot_, completion.slot);
  if (started.claimed >= 0) {
    completion.result = started.claimed;
  } else if (completion.result > 1 && completion.result < started.asked && happens(0.5)) {
    completion.result -= random_.below(static_cast<uint32_t>(std::min(completion.result, kPage)));
  }
  held_.push_back(completion);
}

std::optional<DiskBackend::Completion> FaultyBackend::finish(Wait wait) {
  while (inside_ > 0) {
    const bool must_wait = wait == Wait::kYes && (held_.empty() || happens(faults_.delay));
    const auto completion = inner_->finish(must_wait ? Wait::kYes : Wait::kNo);
    if (!completion) break;
    take(*completion);
  }
  if (held_.empty() || (wait == Wait::kNo && happens(faults_.delay))) return std::nullopt;
  const size_t chosen = happens(faults_.delay) ? random_.below(static_cast<uint32_t>(held_.size())) : 0;
  const Completion completion = held_[chosen];
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(chosen));
  return completion;
}

MakeDiskBackend with_faults(MakeDiskBackend make, const DiskFaults& faults) {
  return [make = std::move(make), faults](const DiskBackendSetup& setup) -> std::unique_ptr<DiskBackend> {
    auto inner = make(setup);
    if (!inner) return nullptr;
    return std::make_unique<FaultyBackend>(std::move(inner), faults, setup.depth);
  };
}

}  // namespace spillway::testing

#include "runtime/memory.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"

namespace spillway {
namespace {

MemoryNeeds needs_of(std::span<const Program* const> programs) {
  MemoryNeeds needs;
  for (const Program* program : programs) needs.add(*program);
  return needs;
}

std::map<int64_t, FilePlace> places_by_offset(const Program& program, const std::map<ValueId, FilePlace>& in_files) {
  std::map<int64_t, FilePlace> result;
  for (const Operand& home : program.homes) {
    if (home.place.tier != Tier::kFiles) continue;
    const auto found = in_files.find(home.value);
    SPILLWAY_CHECK(found != in_files.end(), "value {} is in no file", home.value);
    result[home.place.offset] = found->second;
  }
  return result;
}

}  // namespace

void MemoryNeeds::add(const Program& program) {
  MemoryNeeds other{.arena_bytes = program.arena_bytes, .threads = program.threads};
  for (const Instruction& i : program.instructions) {
    nth(other.lanes, i.lane) = true;
    const auto is_on_device = [](const std::vector<Operand>& operands) {
      return !operands.empty() && operands[0].place.tier == Tier::kDevice;
    };
    if (is_on_device(i.inputs) || is_on_device(i.outputs)) nth(other.meets_device, i.lane) = true;
  }
  add(other);
}

void MemoryNeeds::add(const MemoryNeeds& other) {
  for (size_t i = 0; i < kTiers; ++i) arena_bytes[i] = std::max(arena_bytes[i], other.arena_bytes[i]);
  for (size_t i = 0; i < kLanes; ++i) {
    lanes[i] = lanes[i] || other.lanes[i];
    meets_device[i] = meets_device[i] || other.meets_device[i];
  }
  threads = std::min(threads, other.threads);
}

Memory::Memory(std::span<const Program* const> programs, ThreadPool& pool, const TierOptions& options)
    : Memory(needs_of(programs), *programs.front(), pool, options) {}

Memory::Memory(const MemoryNeeds& needs, const Program& first, ThreadPool& pool, const TierOptions& options)
    : pool_(pool),
      device_(options.device ? options.device : &cpu_device()),
      device_memory_(device_->allocate("device", nth(needs.arena_bytes, Tier::kDevice))),
      host_("host", nth(needs.arena_bytes, Tier::kHost)),
      staging_("host",
               options.direct_files && nth(needs.arena_bytes, Tier::kFiles) > 0 ? TierOptions::staging_bytes() : 0),
      in_files_(places_by_offset(first, options.in_files)) {
  SPILLWAY_CHECK(pool.threads() <= needs.threads, "{} threads in a plan for {}", pool.threads(), needs.threads);
  SPILLWAY_CHECK(options.host_threads <= needs.threads, "{} threads on the host in a plan for {}", options.host_threads,
                 needs.threads);
  if (nth(needs.lanes, Lane::kHostCompute)) host_pool_.emplace(options.host_threads);
  if (host_.bytes() > 0) pinned_host_ = device_->pin(span_of(host_.at(0), host_.bytes()));
  open_queues(needs, options);
  for (const Lane lane : {Lane::kCompute, Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kHostCompute}) {
    Device& worker = lane == Lane::kHostCompute ? cpu_device() : *device_;
    nth(device_queues_, lane) = worker.make_queue();
  }
}

void Memory::open_queues(const MemoryNeeds& needs, const TierOptions& options) {
  const int64_t device_bytes = nth(needs.arena_bytes, Tier::kDevice);
  const int64_t disk_bytes = nth(needs.arena_bytes, Tier::kDisk);
  SPILLWAY_CHECK(disk_bytes == 0 || (options.scratch && options.scratch->bytes() >= disk_bytes),
                 "no scratch space for a disk tier of {} bytes", disk_bytes);
  DiskQueueOptions queue{.backend = options.disk_backend};
  const auto add_memory = [&](std::byte* base, int64_t bytes) {
    if (bytes > 0) queue.memory.push_back(span_of(base, bytes));
  };
  if (device_->shares_host_memory()) {
    add_memory(device_memory_.get(), device_bytes);
  } else {
    for (const Lane lane : {Lane::kDiskRead, Lane::kDiskWrite}) {
      if (!nth(needs.meets_device, lane)) continue;
      std::unique_ptr<DiskBridge>& bridge = nth(bridges_, lane);
      bridge = std::make_unique<DiskBridge>(*device_);
      add_memory(bridge->memory().data(), std::ssize(bridge->memory()));
    }
  }
  add_memory(host_.at(0), host_.bytes());
  if (disk_bytes > 0) writes_ = std::make_unique<DiskQueue>(options.scratch, queue);
  if (!in_files_.empty()) {
    queue.read_files = options.files;
    if (staging_.bytes() > 0) queue.staging = span_of(staging_.at(0), staging_.bytes());
  }
  if (disk_bytes > 0 || !in_files_.empty()) {
    reads_ = std::make_unique<DiskQueue>(disk_bytes > 0 ? options.scratch : nullptr, queue);
  }
}

std::byte* Memory::address(const Place& place) const {
  if (place.tier == Tier::kDevice) return device_memory_.get() + place.offset;
  return place.tier == Tier::kHost ? host_.at(place.offset) : nullptr;
}

FilePlace Memory::file_place(const Place& place) const {
  const auto found = in_files_.find(place.offset);
  SPILLWAY_CHECK(place.tier == Tier::kFiles && found != in_files_.end(), "no file is behind place {} of tier {}",
                 place.offset, name_of(place.tier));
  return found->second;
}

void Memory::copy_now(void* to, const void* from, int64_t bytes) {
  device_queue(Lane::kCompute).copy(to, from, bytes);
  device_queue(Lane::kCompute).finish();
}

}  // namespace spillway

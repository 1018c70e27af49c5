#include "runtime/memory.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"

namespace spillway {
namespace {

using Programs = std::span<const Program* const>;

int64_t arena_bytes(Programs programs, Tier tier) {
  int64_t bytes = 0;
  for (const Program* program : programs) bytes = std::max(bytes, nth(program->arena_bytes, tier));
  return bytes;
}

// Returns true if any instruction satisfies `is`, so that only what the programs use is opened or started.
template <typename Predicate>
bool any_instruction(Programs programs, const Predicate& is) {
  return std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
    return std::any_of(program->instructions.begin(), program->instructions.end(), is);
  });
}
bool uses_lane(Programs programs, Lane lane) {
  return any_instruction(programs, [&](const Instruction& i) { return i.lane == lane; });
}
// Returns true if a disk lane reaches into the device tier.
bool meets_device(Programs programs, Lane lane) {
  return any_instruction(programs, [&](const Instruction& i) {
    return i.lane == lane && (i.inputs[0].place.tier == Tier::kDevice || i.outputs[0].place.tier == Tier::kDevice);
  });
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

Memory::Memory(Programs programs, ThreadPool& pool, const TierOptions& options)
    : pool_(pool),
      device_(options.device ? options.device : &cpu_device()),
      device_memory_(device_->allocate("device", arena_bytes(programs, Tier::kDevice))),
      host_("host", arena_bytes(programs, Tier::kHost)),
      staging_("host",
               options.direct_files && arena_bytes(programs, Tier::kFiles) > 0 ? TierOptions::staging_bytes() : 0),
      in_files_(places_by_offset(*programs.front(), options.in_files)) {
  for (const Program* program : programs) {
    SPILLWAY_CHECK(pool.threads() <= program->threads, "{} threads in a plan for {}", pool.threads(), program->threads);
    SPILLWAY_CHECK(options.host_threads <= program->threads, "{} threads on the host in a plan for {}",
                   options.host_threads, program->threads);
  }
  if (uses_lane(programs, Lane::kHostCompute)) host_pool_.emplace(options.host_threads);
  if (host_.bytes() > 0) pinned_host_ = device_->pin(span_of(host_.at(0), host_.bytes()));
  open_queues(programs, options, arena_bytes(programs, Tier::kDevice), arena_bytes(programs, Tier::kDisk));
  for (const Lane lane : {Lane::kCompute, Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kHostCompute}) {
    Device& worker = lane == Lane::kHostCompute ? cpu_device() : *device_;
    nth(device_queues_, lane) = worker.make_queue();
  }
}

void Memory::open_queues(Programs programs, const TierOptions& options, int64_t device_bytes, int64_t disk_bytes) {
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
      if (!meets_device(programs, lane)) continue;
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

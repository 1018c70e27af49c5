#include "job/tiers.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "io/disk_space.h"
#include "job/offload_policy.h"
#include "runtime/machine_cache.h"
#include "runtime/process_memory.h"

namespace spillway::train {

namespace {

// The budget of a disk tier is the free space of its disks. A full disk would make it zero, which is not an error of
// the budget.
void check_disks(const config::MemorySettings& memory) {
  if (!memory.disk.size.empty() || !memory.disks_are_named) return;
  for (const std::string& folder : memory.disk_paths) {
    if (known_free_bytes(folder)) continue;
    throw input_error("memory.disk_paths",
                      "expected folders on disks, got {}, whose file system has no room at all; name another", folder);
  }
}

}  // namespace

Machine machine_of(const config::Config& config, Device& device, int ranks) {
  check_disks(config.memory);
  const std::vector<std::string>& folders = config.memory.disk_paths;
  Machine machine = this_machine(folders, device);
  for (const Tier tier : kEachBudgetedTier) {
    if (tier == Tier::kDevice && !device.shares_host_memory()) continue;  // each rank has a GPU
    nth(machine.capacity_bytes, tier) /= ranks;
    nth(machine.total_bytes, tier) /= ranks;
  }
  machine.ranks_per_host = ranks > 1 ? 0 : 1;
  machine.ranks_on_host = ranks;
  const Budget budget = make_budget(config.memory, make_policy(config.offload), machine);
  if (budget.disk.value_or(0) > 0) measure_new_disks(machine, folders, device);
  return machine;
}

int64_t predicted_rss_bytes(const Job& job, const PlannedJob& planned, const Machine& machine) {
  // An upper bound for feeds, threads, libraries, metrics and the report: 4 to 10 MiB were measured with models from
  // 135M to 7B parameters.
  constexpr int64_t kWorkBytes = 12 * kMiB;
  int64_t bytes = current_rss_bytes() + unread_program_bytes() + kWorkBytes + arena_bytes(planned, Tier::kHost);
  if (machine.device == DeviceKind::kCpu) bytes += arena_bytes(planned, Tier::kDevice);
  if (planned.direct_files && arena_bytes(planned, Tier::kFiles) > 0) bytes += TierOptions::staging_bytes();
  if (job.config.memory.disk_checksum) bytes += BlockChecksums::table_bytes(arena_bytes(planned, Tier::kDisk));
  return std::max(bytes, peak_rss_bytes());
}

JobTiers::JobTiers(const Job& job, const PlannedJob& planned, Device& device) {
  TierOptions& tiers = options_.tiers;
  tiers.device = &device;
  tiers.host_threads = planned.plan.program.threads;
  if (const int64_t bytes = arena_bytes(planned, Tier::kDisk); bytes > 0) {
    const std::vector<std::string>& folders = job.config.memory.disk_paths;
    scratch_ = std::make_unique<Scratch>(ScratchOptions{.folders = {folders.begin(), folders.end()},
                                                        .bytes = align_up(bytes, kDiskAlignment),
                                                        .checksums = job.config.memory.disk_checksum});
    tiers.scratch = scratch_.get();
  }
  if (arena_bytes(planned, Tier::kFiles) == 0) return;
  tiers.files = planned.stored.files;
  tiers.in_files = planned.stored.places;
  tiers.direct_files = planned.direct_files;
}

}  // namespace spillway::train

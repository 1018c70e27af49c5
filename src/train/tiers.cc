#include "train/tiers.h"

#include "base/math.h"
#include "runtime/computer.h"

namespace spillway::train {

JobTiers::JobTiers(const Job& job, const PlannedJob& planned, Device& device) {
  const Program& program = planned.plan.program;
  TierOptions& tiers = options_.tiers;
  tiers.device = &device;
  tiers.host_threads = program.threads;
  if (const int64_t bytes = program.arena_bytes[static_cast<size_t>(Tier::kDisk)]; bytes > 0) {
    const std::vector<std::string> folders = disk_paths(job.config);
    scratch_ = std::make_unique<Scratch>(ScratchOptions{.folders = {folders.begin(), folders.end()},
                                                        .bytes = align_up(bytes, kDiskAlignment),
                                                        .checksums = job.config.memory.disk_checksum});
    tiers.scratch = scratch_.get();
  }
  const int64_t in_files = program.arena_bytes[static_cast<size_t>(Tier::kFiles)];
  if (in_files == 0) return;
  tiers.files = planned.stored.files;
  tiers.in_files = planned.stored.places;
  // Weights that the page cache can hold are read from there after the first pass.
  tiers.direct_files = in_files > available_memory_bytes() / 2;
}

}  // namespace spillway::train

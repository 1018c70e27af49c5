#include "saved/output_room.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "io/disk_space.h"

namespace spillway::train {

int64_t checkpoints_to_come(const config::OutputSettings& output, int64_t step, int64_t total_steps,
                            int64_t steps_per_epoch, int64_t kept) {
  if (step >= total_steps) return 0;
  // The number of evaluations that will be the best so far is not known.
  if (output.save.kind == config::Interval::Kind::kBest) return 1;
  const int64_t every = output.save.steps(total_steps, steps_per_epoch);
  const int64_t first = output.saves_first_step && step == 0 && every != 1 ? 1 : 0;
  if (every == 0) return first;
  const int64_t written = first + (total_steps + every - 1) / every - step / every;  // the last step has one, too
  const int64_t limit = output.save_total_limit.value_or(0);
  return limit == 0 ? written : std::min(written, std::max<int64_t>(limit + 1 - kept, 1));
}

void check_room(const std::filesystem::path& folder, const OutputBytes& bytes, int64_t checkpoints) {
  const std::optional<int64_t> room = known_free_bytes(folder);
  if (!room) return;
  const int64_t first = checkpoints > 0 ? bytes.checkpoint : 0;
  if (bytes.model + first > *room)
    throw input_error(
        "output_dir", "expected room for the model{} in {}, {}, got {}; make room, or name a folder of another disk",
        first > 0 ? " and a checkpoint" : "", folder.string(), format_bytes(bytes.model + first), format_bytes(*room));
  if (bytes.checkpoint > 0 && checkpoints > (*room - bytes.model) / bytes.checkpoint)
    log_warning(
        "[output_dir] expected room for {} checkpoints of {} in {}, got {}; set save_total_limit, save less often, or "
        "name a folder of another disk",
        checkpoints, format_bytes(bytes.checkpoint), folder.string(), format_bytes(*room));
}

}  // namespace spillway::train

#include "train/run_data.h"

#include <utility>

#include "job/online/online_job.h"
#include "train/clips/clip_data.h"
#include "train/online/prompt_data.h"
#include "train/rows/row_data.h"

namespace spillway::train {

std::unique_ptr<RunData> make_run_data(const Job& job, const TrainingData& data, DataListeners listeners,
                                       MakeRounds make_rounds) {
  const RunKind* const kind = job.kind.get();
  if (dynamic_cast<const OnlineJob*>(kind)) return make_prompt_data(job, std::move(listeners), std::move(make_rounds));
  if (const auto* clips = dynamic_cast<const ClipJob*>(kind))
    return make_clip_data(job, *clips, *data.clips, std::move(listeners));
  return make_row_data(job, data, std::move(listeners));
}

}  // namespace spillway::train

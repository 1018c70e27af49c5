#include "cli/report_samples.h"

#include <algorithm>

#include "base/index.h"
#include "job/online/online_job.h"
#include "report/gif.h"
#include "train/online/completion_lines.h"

namespace spillway {

void add_completions(RunRecord& record, const train::Job& job, const train::RoundRecord& r, int64_t steps) {
  if (r.step != 1 && r.step != steps / 2 + 1 && r.step != steps) return;
  constexpr int64_t kPrompts = 4;
  const train::OnlineJob& online = train::online_of(job);
  const int64_t group = job.config.online->num_generations;
  for (int64_t i = 0; i < std::min(kPrompts * group, std::ssize(r.round->completions)); i += group) {
    const train::Completion& one = nth(r.round->completions, i);
    const data::PromptRow& row = nth(online.training, one.row);
    record.add_sample({r.step, train::shown_prompt(row), online.tokenizer->decode(one.ids, true),
                       train::weighted_reward(*job.config.rewards, one)});
  }
}

void add_clips(RunRecord& record, const infer::Pixels& pixels, const train::ClipsRecord& r) {
  for (const train::SampledClip& clip : r.clips) {
    const data::ClipShape& shape = clip.shape;
    const Animation animation = pixels_of(pixels.of(clip.latents, shape), shape.frames, shape.height, shape.width);
    record.add_sample({.step = r.step,
                       .prompt = clip.prompt,
                       .text = r.are_originals ? "data" : "",
                       .pictures = {data_url(gif_of(strip_of(animation))), data_url(gif_of(animation))}});
  }
}

}  // namespace spillway

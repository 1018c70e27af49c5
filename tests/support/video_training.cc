#include "tests/support/video_training.h"

#include <fmt/format.h>

#include <utility>

#include "train/clips/clip_feed.h"

namespace spillway::testing {

train::Job video_job(const std::string& name, bool has_lora, const std::filesystem::path& output,
                     const Machine& machine, const std::string& lines) {
  const std::string text = video_lines(name, has_lora, output) + lines;
  const std::vector<config::ConfigOverride> bf16 = {{"bf16", "true"}};
  config::Config config = config::load_config(text, "video.yml", bf16, config::ConfigUse::kTrain).config;
  config.model.base_model = (video_golden(name) / config.video.component).string();
  return train::make_job(config, machine);
}

std::vector<ClipBatch> clip_batches(const train::Job& job, int64_t steps) {
  const auto& kind = dynamic_cast<const train::ClipJob&>(*job.kind);
  const train::ClipSet& set = kind.sets->training;
  train::ClipFeed feed(kind, set, train::clip_order(job.config, set), 0, steps, {}, {});
  std::vector<ClipBatch> batches;
  for (int64_t step = 0; step < steps; ++step) {
    feed.begin(step);
    const int64_t count = feed.totals().micro_batches;
    for (int64_t i = 0; i < count; ++i) {
      const data::MicroBatch& clips = feed.micro_batch(i).front();
      batches.push_back({clips, clips.rows});
    }
  }
  return batches;
}

}  // namespace spillway::testing

#include "cli/preprocess/clip_samples.h"

#include "base/clock.h"
#include "base/json.h"
#include "data/clips/clip_stream.h"
#include "io/file.h"
#include "job/clips/clip_job.h"
#include "train/clips/clip_feed.h"

namespace spillway {

using nlohmann::ordered_json;

ordered_json write_clip_samples(const std::filesystem::path& folder, const config::Config& config, const Model& model,
                                Progress& progress) {
  train::check_no_text_keys(config);
  const train::ClipJob job = train::make_clip_job(config, model);
  const std::shared_ptr<const train::ClipSets> sets = train::open_clips(config, job);
  const train::ClipOrder order = train::clip_order(config, sets->training);
  const int64_t steps = train::total_steps(config.schedule, order.size);
  const int64_t samples = order.first_sample(steps);
  data::ClipStream stream(sets->training.rows, job.flow, train::training_turns(order, sets->training, 0, steps),
                          train::samples_in_flight(1));
  std::string lines;
  int64_t step = 0, dropped = 0, patches = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const data::ClipSample sample = stream.next().value();
    while (i >= order.first_sample(step + 1)) ++step;
    const std::string file = data::sample_file_name(i);
    data::write_sample(folder / file, sample);
    const ordered_json line = {{"sample", i},           {"step", step + 1},
                               {"row", sample.row},     {"timestep", sample.timestep},
                               {"sigma", sample.sigma}, {"text_dropped", sample.text_dropped},
                               {"file", file}};
    lines += json_text(line) + "\n";
    dropped += sample.text_dropped;
    patches += sample.shape.patches(job.demands.patch);
    progress.count(fmt::format("of {} samples written", samples), i + 1, now_seconds());
  }
  progress.clear();
  write_file(folder / "samples.jsonl", lines);
  const int64_t rows = order.size.lines;
  ordered_json summary = {
      {"rows", rows}, {"samples", samples}, {"steps", steps}, {"patches", patches}, {"texts_dropped", dropped}};
  write_file(folder / "summary.json", json_text(summary, 2) + "\n");
  return summary;
}

}  // namespace spillway

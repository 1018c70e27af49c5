#include "train/clips/clip_data.h"

#include <utility>

#include "base/math.h"

namespace spillway::train {
namespace {

class ClipData final : public RunData {
 public:
  ClipData(const Job& job, const ClipJob& clips, const ClipSets& sets, DataListeners listeners)
      : job_(job),
        clips_(clips),
        sets_(sets),
        listeners_(std::move(listeners)),
        order_(clip_order(job.config, sets.training)),
        sampler_(clips, sets) {}

  [[nodiscard]] TrainingLength length() const override {
    int64_t patches = 0;
    for (const int64_t row : sets_.training.chosen)
      patches += sets_.training.rows->header(row).latents.patches(clips_.demands.patch);
    return {order_.size.lines, patches, order_.size, total_steps(job_.config.schedule, order_.size)};
  }
  void identify(int64_t steps_per_epoch, TrainingPosition& position) const override {
    position.rows = order_.size.lines;
    position.rows_checksum = sets_.training.rows->checksum();
    if (has_evaluation()) position.evaluation_checksum = sets_.validation.rows->checksum();
    position.steps_per_epoch = steps_per_epoch;
  }
  [[nodiscard]] std::unique_ptr<StepFeed> make_feed(TrainingSession&, const TrainingLength& length,
                                                    const TrainingPosition& position, Ranks& ranks) const override {
    ClipOrder order = order_;
    order.size = length.epoch;
    return std::make_unique<ClipFeed>(clips_, sets_.training, order, position.step, length.total_steps,
                                      part_of(ranks, job_.config.ranks.context), listeners_.sample);
  }
  void sample(TrainingSession& session, int64_t step) const override {
    if (!listeners_.clips) return;
    if (step == 0) listeners_.clips({.are_originals = true, .clips = sampler_.originals()});
    listeners_.clips({.step = step, .clips = sampler_.sample(session)});
  }
  [[nodiscard]] bool has_evaluation() const override { return sets_.validation.size() > 0; }
  [[nodiscard]] std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession&) const override {
    return std::make_unique<ClipEvaluation>(clips_, sets_.validation, job_.config.data.evaluation_batches.rows);
  }

 private:
  // Returns the part of a group of `together` ranks, which share their clips.
  [[nodiscard]] static RankPart part_of(const Ranks& ranks, int64_t together) {
    return {narrow<int>(ranks.rank() / together), narrow<int>(ranks.groups_of(together))};
  }

  const Job& job_;
  const ClipJob& clips_;
  const ClipSets& sets_;
  DataListeners listeners_;
  ClipOrder order_;
  ClipSampler sampler_;
};

}  // namespace

std::unique_ptr<RunData> make_clip_data(const Job& job, const ClipJob& clips, const ClipSets& sets,
                                        DataListeners listeners) {
  return std::make_unique<ClipData>(job, clips, sets, std::move(listeners));
}

}  // namespace spillway::train

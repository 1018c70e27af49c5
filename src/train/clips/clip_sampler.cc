#include "train/clips/clip_sampler.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/sizes.h"
#include "data/clips/clip_draws.h"
#include "data/clips/clip_sample.h"

namespace spillway::train {
namespace {

constexpr int64_t kMostRows = 6, kSteps = 24;
// The numbers of samples, disjoint from those of training and validation.
constexpr int64_t kNoises = (int64_t{1} << 47) + (int64_t{1} << 46);

}  // namespace

ClipSampler::ClipSampler(const ClipJob& job, const ClipSets& sets)
    : job_(job), set_(sets.validation.size() > 0 ? sets.validation : sets.training) {
  const int64_t count = std::min(kMostRows, set_.size());
  for (int64_t i = 0; i < count; ++i) rows_.push_back(nth(set_.chosen, i * set_.size() / count));
}

std::string ClipSampler::prompt_of(int64_t row) const {
  const std::string& caption = set_.rows->header(row).caption;
  return caption.empty() ? set_.rows->where(row) : caption;
}

std::vector<SampledClip> ClipSampler::sample(TrainingSession& session) const {
  std::vector<float> flow;
  const auto predict = [&](const data::MicroBatch& batch, size_t) {
    (void)session.evaluate(BatchStreams(std::span(&batch, 1)).list());
    const std::vector<double>& seen = session.observed()[1];
    flow.assign(seen.begin(), seen.end());
    return std::span<const float>(flow);
  };
  std::vector<SampledClip> clips;
  for (size_t i = 0; i < rows_.size(); ++i) {
    data::Clip row = set_.rows->read(rows_[i]);
    const data::ClipShape shape = row.header.latents;
    auto noise = make_vector<float>(shape.elems());
    data::fill_noise(job_.flow.seed, kNoises + static_cast<int64_t>(i), 0, noise);
    const infer::ClipPrompt prompt{.text = std::move(row.text),
                                   .negative = {},
                                   .image = std::move(row.image),
                                   .first_frame = std::move(row.first_frame)};
    const infer::SamplingOptions options{
        .steps = kSteps, .flow_shift = job_.flow.flow_shift, .text_len = job_.flow.text_len};
    clips.push_back({prompt_of(rows_[i]), shape,
                     infer::sample_clip(predict, job_.demands, shape, std::move(noise), prompt, options)});
  }
  return clips;
}

std::vector<SampledClip> ClipSampler::originals() const {
  const data::FlowTable table = data::make_flow_table(job_.flow.flow_shift);
  std::vector<SampledClip> clips;
  for (const int64_t row : rows_) {
    data::ClipSample clip = data::prepare_sample(set_.rows->read(row), row, job_.flow, table, 0);
    clips.push_back({prompt_of(row), clip.shape, std::move(clip.latents)});
  }
  return clips;
}

}  // namespace spillway::train

#include "infer/clips/sampling.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "data/clips/clip_batch.h"
#include "data/clips/clip_draws.h"

namespace spillway::infer {
namespace {

constexpr double kTimesteps = 1000;

double shifted(double sigma, double shift) { return shift * sigma / (1 + (shift - 1) * sigma); }

// Returns the rows of a text, padded with zeros or truncated.
std::vector<float> padded(std::vector<float> text, const SamplingOptions& options, int64_t width) {
  resize(text, options.text_len * width);
  return text;
}

}  // namespace

std::vector<float> euler_sigmas(int64_t steps, double shift) {
  const data::FlowTable table = data::make_flow_table(shift);
  const double first = static_cast<double>(table.sigmas.front()) * kTimesteps;
  const double last = static_cast<double>(table.sigmas.back()) * kTimesteps;
  std::vector<float> sigmas;
  for (int64_t i = 0; i < steps; ++i) {
    const double share = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    const double timestep = i > 0 && i + 1 == steps ? last : first + share * (last - first);
    sigmas.push_back(static_cast<float>(shifted(timestep / kTimesteps, shift)));
  }
  sigmas.push_back(0);
  return sigmas;
}

std::vector<float> sample_clip(const PredictFlow& predict, const data::ClipDemands& demands,
                               const data::ClipShape& shape, std::vector<float> noise, const ClipPrompt& prompt,
                               const SamplingOptions& options,
                               const std::function<void(int64_t done, int64_t of)>& progress) {
  SPILLWAY_CHECK(std::ssize(noise) == shape.elems(), "{} numbers of noise for {}", noise.size(), to_string(shape));
  // The first level is pure noise: x = (1 - 1) z + noise.
  data::ClipSample clip{.shape = shape,
                        .latents = std::vector<float>(noise.size()),
                        .noise = std::move(noise),
                        .sigma = 1,
                        .text_len = options.text_len,
                        .image_rows = demands.image_width > 0 ? std::ssize(prompt.image) / demands.image_width : 0,
                        .image = prompt.image,
                        .first_frame = prompt.first_frame};
  const std::vector<float> text = padded(prompt.text, options, demands.text_width);
  const std::vector<float> negative = padded(prompt.negative, options, demands.text_width);
  const std::vector<float> sigmas = euler_sigmas(options.steps, options.flow_shift);
  data::MicroBatch batch;
  for (int64_t step = 0; step < options.steps; ++step) {
    const float sigma = nth(sigmas, step), next = nth(sigmas, step + 1);
    clip.timestep = sigma * static_cast<float>(kTimesteps);
    const bool is_second = options.second && clip.timestep < static_cast<float>(options.second->boundary);
    const auto guidance = static_cast<float>(is_second ? options.second->guidance : options.guidance);
    const bool guides = guidance != 1;
    batch.clear();
    for (const std::vector<float>* one : {&text, &negative}) {
      if (one == &negative && !guides) continue;
      clip.text = *one;
      data::add_to_micro_batch(batch, clip, demands);
    }
    const std::span<const float> flow = predict(batch, is_second ? 1 : 0);
    const size_t elems = clip.noise.size();
    const std::vector<float> told = data::unpatchify(flow.first(elems), shape, demands.patch);
    std::vector<float> untold;
    if (guides) untold = data::unpatchify(flow.subspan(elems, elems), shape, demands.patch);
    for (size_t i = 0; i < elems; ++i) {
      const float velocity = guides ? untold[i] + guidance * (told[i] - untold[i]) : told[i];
      clip.noise[i] += (next - sigma) * velocity;
    }
    if (progress) progress(step + 1, options.steps);
  }
  return std::move(clip.noise);
}

}  // namespace spillway::infer

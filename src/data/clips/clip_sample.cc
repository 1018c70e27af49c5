#include "data/clips/clip_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "data/clips/clip_names.h"
#include "io/safetensors_writer.h"

namespace spillway::data {
namespace {

void normalise(std::vector<float>& latents, const ClipShape& shape, const FlowOptions& options) {
  const int64_t plane = shape.elems() / shape.channels;
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    const float mean = nth(options.latents_mean, channel);
    const float scale = 1 / nth(options.latents_std, channel);
    float* const values = latents.data() + channel * plane;
    for (int64_t i = 0; i < plane; ++i) values[i] = (values[i] - mean) * scale;
  }
}

}  // namespace

int64_t ClipSample::bytes() const {
  size_t numbers = 0;
  for (const std::vector<float>* values : {&latents, &noise, &text, &image, &first_frame}) numbers += values->size();
  return static_cast<int64_t>(numbers * sizeof(float));
}

ClipSample prepare_sample(Clip clip, int64_t row, const FlowOptions& options, const FlowTable& table, int64_t sample,
                          std::optional<float> timestep) {
  const ClipHeader& header = clip.header;
  const FlowDraw draw = draw_flow(options, table, sample);
  ClipSample out{.row = row, .sample = sample, .shape = header.latents};
  out.latents = std::move(clip.latents);
  if (!header.is_normalised && !options.latents_mean.empty()) normalise(out.latents, out.shape, options);
  out.noise = std::move(clip.noise);
  if (!header.has_noise) {
    out.noise.resize(out.latents.size());
    fill_noise(options.seed, sample, 0, out.noise);
  }
  out.timestep = clip.timestep ? *clip.timestep : timestep.value_or(draw.timestep);
  out.sigma = sigma_at(out.timestep);
  const auto text_width = std::ssize(clip.text) / header.text_rows;
  out.text_len = options.text_len;
  out.text_dropped = draw.drops_text;
  out.text_rows = out.text_dropped ? 0 : std::min(header.text_rows, options.text_len);
  out.text = std::move(clip.text);
  resize(out.text, out.text_rows * text_width);
  resize(out.text, options.text_len * text_width);
  out.image_rows = header.image_rows;
  out.image = std::move(clip.image);
  out.first_frame = std::move(clip.first_frame);
  return out;
}

std::string sample_file_name(int64_t sample) { return fmt::format("{:06}.safetensors", sample); }

void write_sample(const std::filesystem::path& path, const ClipSample& sample) {
  const ClipShape& shape = sample.shape;
  const auto rows_of = [](const std::vector<float>& values, int64_t rows) {
    return std::vector<int64_t>{rows, std::ssize(values) / rows};
  };
  struct Tensor {
    std::string_view name;
    const std::vector<float>& values;
    std::vector<int64_t> shape;
  };
  const std::vector<int64_t> latents = {shape.channels, shape.frames, shape.height, shape.width};
  const std::vector<float> timestep = {sample.timestep};
  std::vector<Tensor> tensors = {
      {kLatents, sample.latents, latents}, {kNoise, sample.noise, latents}, {kTimestep, timestep, {1}}};
  tensors.push_back({kTextEmbedding, sample.text, rows_of(sample.text, sample.text_len)});
  if (sample.image_rows > 0) tensors.push_back({kClipFeature, sample.image, rows_of(sample.image, sample.image_rows)});
  if (!sample.first_frame.empty()) {
    const int64_t plane = shape.elems() / shape.channels;
    tensors.push_back({kFirstFrame,
                       sample.first_frame,
                       {std::ssize(sample.first_frame) / plane, shape.frames, shape.height, shape.width}});
  }
  std::vector<TensorSpec> specs;
  for (const Tensor& one : tensors)
    specs.push_back({.name = std::string(one.name), .dtype = DType::kF32, .shape = one.shape});
  std::map<std::string, std::string> metadata = default_metadata();
  metadata[std::string(kLatents)] = kNormalised;
  SafetensorsWriter writer(path, specs, metadata);
  for (const Tensor& one : tensors) writer.append(one.name, one.values.data(), DType::kF32, std::ssize(one.values));
  writer.commit();
}

}  // namespace spillway::data

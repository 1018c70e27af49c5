#include "cli/cmd_sample.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>

#include "backend/device.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sizes.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generation_arguments.h"
#include "data/clips/clip_draws.h"
#include "data/clips/clip_names.h"
#include "infer/clips/pixels.h"
#include "infer/clips/sampling.h"
#include "infer/inference_program.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "job/clips/clip_job.h"
#include "model/dit/video_pipeline.h"
#include "model/layout.h"
#include "ops/cast/cast.h"
#include "report/gif.h"
#include "report/progress.h"

namespace spillway {
namespace {

// The factor by which small clips are enlarged.
constexpr int64_t kGifScale = 8;

constexpr double kMaxGuidance = 1e3;
constexpr std::string_view kSecondAdapter = "--adapter-2", kSecondGuidance = "--guidance-2";

struct SampleOptions {
  ModelArguments model;
  std::string second_adapter, text, out, noise, shape, gif;
  uint64_t seed = 42;
  std::optional<double> second_guidance;  // none: as the first
  infer::SamplingOptions sampling;
  bool json = false;
};

void add_to(CommandLine& line, SampleOptions& o) {
  line.pipeline(o.model.model, "the pipeline's folder, or that of one transformer");
  line.adapter(o.model.adapter, "a LoRA of diffusers for it");
  line.adapter(kSecondAdapter, o.second_adapter, "likewise for transformer_2, where the pipeline has two");
  o.model.add_place_to(line, "in each step");
  line.required("--text FILE", o.text, "safetensors: text_embedding and, for guidance, negative_embedding");
  line.required("--out FILE", o.out, "the safetensors file to write: latents, in normalised units");
  line.option("--noise FILE", o.noise, "safetensors: noise [channels, frames, rows, columns]");
  line.option("--shape C,T,H,W", o.shape, "of noise that is drawn");
  line.option("--seed N", o.seed, "likewise");
  line.option("--steps N", o.sampling.steps, "Euler steps", 1, data::kFlowSteps);
  line.option("--flow-shift X", o.sampling.flow_shift, "of the noise levels", 1e-3, 1e3);
  line.option("--guidance X", o.sampling.guidance, "how far away from the negative text; 1: not at all", -kMaxGuidance,
              kMaxGuidance);
  line.option("--guidance-2 X", o.second_guidance, "the same of transformer_2 (as --guidance)", -kMaxGuidance,
              kMaxGuidance);
  line.option("--text-len N", o.sampling.text_len, "rows of text, filled up with zeros", 1, 1 << 16);
  line.option("--gif FILE", o.gif, "an animation, where the model's latents are pixels");
  line.flag("--json", o.json, "print one JSON document");
  line.example("spillway sample ./wan --text t.safetensors --shape 16,20,60,104 --guidance 5 --out z.safetensors");
}

// A tensor of a file, with its shape. Nothing where the file has none of that name.
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
std::optional<Numbers> read_numbers(const SafetensorsFile& file, std::string_view name) {
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    Numbers result{tensor.shape, make_vector<float>(tensor.elems())};
    if (!tensor.dtype())
      throw input_error(file.path().string(), "expected {} in F32, F16 or BF16, got {}; convert it", name,
                        quote(tensor.dtype_name));
    file.read(tensor, 0, tensor.elems(), DType::kF32, result.values.data());
    return result;
  }
  return {};
}

// Rows of `width` numbers: [rows, width], or with a one before.
std::vector<float> read_rows(const SafetensorsFile& file, std::string_view name, int64_t width, bool is_required) {
  std::optional<Numbers> found = read_numbers(file, name);
  if (!found && !is_required) return {};
  if (!found) throw input_error(file.path().string(), "expected a tensor {}, got none; write it there", name);
  const std::vector<int64_t>& shape = found->shape;
  const bool is_flat = shape.size() == 2 || (shape.size() == 3 && shape[0] == 1);
  if (!is_flat || shape.back() != width || found->values.empty())
    throw input_error(file.path().string(), "expected {} of [rows, {}], got [{}]; use the model's own encoder", name,
                      width, fmt::join(shape, ", "));
  return std::move(found->values);
}

data::ClipShape shape_of(std::span<const int64_t> sizes, const data::ClipDemands& demands, const std::string& where) {
  const auto& patch = demands.patch;
  const bool fits = sizes.size() == 4 && sizes[0] == demands.channels && sizes[1] > 0 && sizes[2] > 0 && sizes[3] > 0 &&
                    sizes[1] % patch[0] == 0 && sizes[2] % patch[1] == 0 && sizes[3] % patch[2] == 0 &&
                    sizes[1] / patch[0] <= demands.max_positions && sizes[2] / patch[1] <= demands.max_positions &&
                    sizes[3] / patch[2] <= demands.max_positions;
  if (!fits)
    throw input_error(where,
                      "expected {} channels, and frames, rows and columns of whole patches [{}], at most {} each way, "
                      "got [{}]; change it",
                      demands.channels, fmt::join(patch, ", "), demands.max_positions, fmt::join(sizes, ", "));
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const char *at = text.data(), *const end = at + text.size(); at < end;) {
    const auto [stop, error] = std::from_chars(at, end, sizes.emplace_back());
    if (error != std::errc() || (stop != end && *stop != ','))
      throw input_error("--shape", "expected numbers with commas between them, got {}; write 16,20,60,104",
                        quote(text));
    at = stop + 1;
  }
  return sizes;
}

struct Start {
  data::ClipShape shape;
  std::vector<float> noise;
};
Start read_start(const SampleOptions& o, const data::ClipDemands& demands) {
  if (!o.noise.empty()) {
    const SafetensorsFile file(o.noise);
    std::optional<Numbers> noise = read_numbers(file, data::kNoise);
    if (!noise) throw input_error(o.noise, "expected a tensor {}, got none; write it there", data::kNoise);
    const data::ClipShape shape = shape_of(noise->shape, demands, o.noise);
    return {shape, std::move(noise->values)};
  }
  constexpr int64_t kMaxElems = int64_t{1} << 30;
  const data::ClipShape shape = shape_of(parse_shape(o.shape), demands, "--shape");
  if (shape.elems() > kMaxElems)
    throw input_error("--shape", "expected at most {} numbers, got {}; make it smaller", kMaxElems, shape.elems());
  Start start{shape, make_vector<float>(shape.elems())};
  data::fill_noise(o.seed, 0, 0, start.noise);
  return start;
}

infer::ClipPrompt read_prompt(const SampleOptions& o, const data::ClipDemands& demands, const data::ClipShape& shape) {
  const SafetensorsFile file(o.text);
  infer::ClipPrompt prompt{.text = read_rows(file, data::kTextEmbedding, demands.text_width, true),
                           .negative = read_rows(file, "negative_embedding", demands.text_width, false)};
  if (demands.image_width > 0) prompt.image = read_rows(file, data::kClipFeature, demands.image_width, true);
  if (demands.image_channels > 0) {
    std::optional<Numbers> frame = read_numbers(file, data::kFirstFrame);
    const std::array<int64_t, 4> wanted = {demands.image_channels, shape.frames, shape.height, shape.width};
    if (!frame || !std::equal(wanted.begin(), wanted.end(), frame->shape.begin(), frame->shape.end()))
      throw input_error(o.text, "expected {} of [{}], got {}; write it there", data::kFirstFrame,
                        fmt::join(wanted, ", "), frame ? fmt::format("[{}]", fmt::join(frame->shape, ", ")) : "none");
    prompt.first_frame = std::move(frame->values);
  }
  return prompt;
}

// The model of a folder of a pipeline, with an adapter for it or none.
infer::InferenceModel read_transformer(const std::filesystem::path& folder, const std::string& adapter,
                                       std::string_view option, bool is_one_of_two) {
  const std::string told = adapter.empty() ? "" : adapter_component(adapter), own = component_name(folder);
  if (is_one_of_two && !told.empty() && told != own)
    throw input_error(option, "expected an adapter of {}, got one of {} in {}; give it as {}", own, told, adapter,
                      option == kSecondAdapter ? "--adapter" : kSecondAdapter);
  return infer::read_video_model(folder, adapter);
}

bool read_the_same(const VideoModel& first, const VideoModel& second) {
  const auto sizes = [](const VideoModel& model) {
    return std::tie(model.in_channels, model.out_channels, model.patch, model.max_positions, model.text_width,
                    model.image_width, model.timestep_size);
  };
  return sizes(first) == sizes(second);
}

std::vector<infer::InferenceModel> read_transformers(const SampleOptions& o, const VideoPipeline& pipeline) {
  const bool has_two = pipeline.transformers.size() == 2;
  if (!has_two && (!o.second_adapter.empty() || o.second_guidance))
    throw input_error(o.second_adapter.empty() ? kSecondGuidance : kSecondAdapter,
                      "expected a pipeline with boundary_ratio in its model_index.json and a transformer_2, got {}; "
                      "remove it, or give the pipeline's folder",
                      o.model.model);
  std::vector<infer::InferenceModel> models;
  models.push_back(read_transformer(pipeline.transformers.front(), o.model.adapter, "--adapter", has_two));
  if (!has_two) return models;
  models.push_back(read_transformer(pipeline.transformers.back(), o.second_adapter, kSecondAdapter, true));
  if (!read_the_same(*models.front().model->video(), *models.back().model->video()))
    throw input_error(o.model.model, "expected two transformers of clips and texts of the same sizes, got others; {}",
                      "correct transformer_2/config.json");
  return models;
}

// The prediction alone, in f32.
void append_prediction(Builder& builder, ModelGraph& model) {
  builder.result(ops::cast(builder, model.hidden, DType::kF32));
}

void write_clip(const std::string& out, const data::ClipShape& shape, const std::vector<float>& latents) {
  std::map<std::string, std::string> metadata = default_metadata();
  metadata.emplace(std::string(data::kLatents), data::kNormalised);
  const std::string name(data::kLatents);
  SafetensorsWriter writer(out, {{name, DType::kF32, {shape.channels, shape.frames, shape.height, shape.width}}},
                           metadata);
  writer.append(name, latents.data(), DType::kF32, shape.elems());
  writer.commit();
}

void print_clip(const SampleOptions& o, const data::ClipShape& shape) {
  if (!o.json) return fmt::print("{}: a clip of {}\n", shown_line(o.out), to_string(shape));
  nlohmann::ordered_json document = {{"out", o.out},
                                     {"shape", {shape.channels, shape.frames, shape.height, shape.width}},
                                     {"steps", o.sampling.steps}};
  if (!o.gif.empty()) document["gif"] = o.gif;
  fmt::print("{}\n", json_text(document, 2));
}

}  // namespace

int cmd_sample(std::span<const std::string> args) {
  SampleOptions o;
  CommandLine line("spillway sample", "Makes a clip with a video transformer: latents out of noise.");
  add_to(line, o);
  line.exactly_one_of({"--noise", "--shape"});
  if (!line.parse(args)) return kDone;
  check_new_file("--out", o.out);
  if (!o.gif.empty()) check_new_file("--gif", o.gif);
  check_different_files("--out", o.out, "--gif", o.gif);

  const VideoPipeline pipeline = read_video_pipeline(o.model.model);
  std::vector<infer::InferenceModel> models = read_transformers(o, pipeline);
  const data::ClipDemands demands = train::demands_of(*models.front().model->video());
  if (models.size() == 2) o.sampling.second = {pipeline.boundary, o.second_guidance.value_or(o.sampling.guidance)};
  if (demands.image_width > 0) o.sampling.text_len = train::kTextBesideImages;
  const std::optional<infer::Pixels> pixels = infer::read_pixels(pipeline.transformers.front());
  if (!o.gif.empty() && !pixels)
    throw input_error("--gif", "expected a model whose latents are pixels (docs/video.md), got one with a VAE; {}",
                      "decode the latents with diffusers");
  Start start = read_start(o, demands);
  const infer::ClipPrompt prompt = read_prompt(o, demands, start.shape);

  const int64_t clips = o.sampling.most_clips(), patches = start.shape.patches(demands.patch);
  const std::shared_ptr<Device> device = open_device(o.model.device);
  ThreadPool pool(available_cpus());
  infer::InferenceProgram program(
      std::move(models),
      {.tokens = clips * patches, .max_sequences = clips, .sequence_len = patches, .text_tokens = o.sampling.text_len},
      o.model.budget(*device, "ask for a smaller clip"), append_prediction, pool, *device);
  Progress progress({});
  const auto predict = [&](const data::MicroBatch& batch, size_t transformer) {
    program.run(batch, transformer);
    return std::span<const float>(span_of(program.result(transformer).as<float>(), clips * start.shape.elems()));
  };
  const std::vector<float> latents = infer::sample_clip(
      predict, demands, start.shape, std::move(start.noise), prompt, o.sampling,
      [&](int64_t done, int64_t of) { progress.count(fmt::format("of {} steps", of), done, now_seconds()); });
  progress.clear();
  write_clip(o.out, start.shape, latents);
  if (!o.gif.empty())
    write_file(o.gif, gif_of(pixels_of(pixels->of(latents, start.shape), start.shape.frames, start.shape.height,
                                       start.shape.width, kGifScale)));
  print_clip(o, start.shape);
  return kDone;
}

}  // namespace spillway

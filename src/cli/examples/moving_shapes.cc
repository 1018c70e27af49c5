#include "cli/examples/moving_shapes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/random.h"
#include "base/sizes.h"
#include "data/clips/clip_draws.h"
#include "data/clips/clip_names.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/dit/wan.h"
#include "model/layout.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Streams of random numbers, apart from each other.
constexpr uint64_t kWeights = 0x7765696768, kWords = 0x776F7264, kClips = 0x636C6970, kOthers = 0x6F74686572;

constexpr double kRadius = 3.2, kSpeed = 1;
constexpr float kLatentMean = -0.8F, kLatentDeviation = 0.5F;

constexpr WanConfig kConfig{.patch_size = {1, 2, 2},
                            .num_attention_heads = 6,
                            .attention_head_dim = 32,
                            .in_channels = 3,
                            .out_channels = 3,
                            .text_dim = kWordWidth,
                            .freq_dim = 64,
                            .ffn_dim = 640,
                            .num_layers = 6};

// Returns the distance of a point from a shape at the origin; negative inside.
double distance_to(int64_t shape, double x, double y) {
  const double ax = std::abs(x), ay = std::abs(y);
  switch (shape) {
    case 0:
      return std::hypot(x, y) - kRadius;
    case 1:
      return std::max(ax, ay) - 0.85 * kRadius;
    case 2:
      return std::min(std::max(ax - kRadius, ay - 0.35 * kRadius), std::max(ay - kRadius, ax - 0.35 * kRadius));
    default:
      return std::max(0.87 * ax + 0.5 * y, -y) - 0.62 * kRadius;
  }
}

// Returns the position after reflections between two walls.
double bounced(double position, double low, double high) {
  const double span = high - low;
  double phase = std::fmod(position - low, 2 * span);
  if (phase < 0) phase += 2 * span;
  return low + (phase < span ? phase : 2 * span - phase);
}

std::vector<float> table_of_words() {
  const auto words = static_cast<int64_t>(kShapeWords.size() + kColourWords.size() + kDirectionWords.size());
  auto table = make_vector<float>(words * kWordWidth);
  data::fill_noise(kWords, 0, 0, table);
  return table;
}

std::vector<float> text_of(const MovingShape& shape, const std::vector<float>& table) {
  const int64_t shapes = std::ssize(kShapeWords), colours = std::ssize(kColourWords);
  std::vector<float> text;
  for (const int64_t row : {shape.shape, shapes + shape.colour, shapes + colours + shape.direction})
    text.insert(text.end(), table.begin() + row * kWordWidth, table.begin() + (row + 1) * kWordWidth);
  return text;
}

void write_text(const fs::path& path, const std::vector<float>& text) {
  const std::string name(data::kTextEmbedding);
  SafetensorsWriter writer(path, {{name, DType::kF32, {std::ssize(text) / kWordWidth, kWordWidth}}});
  writer.append(name, text.data(), DType::kF32, std::ssize(text));
  writer.commit();
}

void write_row(const fs::path& path, const MovingShape& shape, const std::vector<float>& table) {
  const std::string latents(data::kLatents), words(data::kTextEmbedding);
  std::map<std::string, std::string> metadata = default_metadata();
  metadata[data::kCaption] = shape.caption();
  SafetensorsWriter writer(
      path, {{latents, DType::kF16, {3, kShapeFrames, kShapeSize, kShapeSize}}, {words, DType::kF32, {3, kWordWidth}}},
      metadata);
  const std::vector<float> pixels = draw(shape), text = text_of(shape, table);
  writer.append(latents, pixels.data(), DType::kF32, std::ssize(pixels));
  writer.append(words, text.data(), DType::kF32, std::ssize(text));
  writer.commit();
}

// Returns the initial values of a parameter: linear layers as torch's, open gates, and outputs of zero.
std::vector<float> fresh(const Parameter& p, uint64_t number) {
  auto values = make_vector<float>(p.shape.elems());
  const bool is_matrix = p.role == ParameterRole::kLinear || p.role == ParameterRole::kProjection;
  if (p.module == "proj_out" || p.module == "condition_embedder.time_proj") return values;
  if (p.role == ParameterRole::kNorm) std::fill(values.begin(), values.end(), 1.0F);
  if (p.role == ParameterRole::kModulation && p.shape[0] == 6 * kConfig.width()) {
    for (const int64_t part : {2, 5})  // the gates
      std::fill_n(values.begin() + part * kConfig.width(), kConfig.width(), 1.0F);
  }
  if (!is_matrix) return values;
  const float bound = 1 / std::sqrt(static_cast<float>(p.shape[1]));
  RandomStream random(kWeights, number);
  for (float& value : values) value = (2 * random.uniform() - 1) * bound;
  return values;
}

void write_model(const fs::path& folder) {
  create_folders(folder / "transformer");
  create_folders(folder / "vae");
  write_file(folder / "model_index.json",
             "{\n  \"_class_name\": \"WanPipeline\",\n"
             "  \"transformer\": [\"diffusers\", \"WanTransformer3DModel\"]\n}\n");
  const Json vae = {{"latents", "pixels"},
                    {"latents_mean", std::array{kLatentMean, kLatentMean, kLatentMean}},
                    {"latents_std", std::array{kLatentDeviation, kLatentDeviation, kLatentDeviation}}};
  write_file(folder / "vae" / "config.json", json_text(vae, 2) + "\n");
  const Json config = {{"_class_name", "WanTransformer3DModel"},
                       {"patch_size", kConfig.patch_size},
                       {"num_attention_heads", kConfig.num_attention_heads},
                       {"attention_head_dim", kConfig.attention_head_dim},
                       {"in_channels", kConfig.in_channels},
                       {"out_channels", kConfig.out_channels},
                       {"text_dim", kConfig.text_dim},
                       {"freq_dim", kConfig.freq_dim},
                       {"ffn_dim", kConfig.ffn_dim},
                       {"num_layers", kConfig.num_layers},
                       {"cross_attn_norm", true},
                       {"qk_norm", "rms_norm_across_heads"},
                       {"eps", kConfig.eps},
                       {"rope_max_seq_len", kConfig.rope_max_seq_len}};
  write_file(folder / "transformer" / "config.json", json_text(config, 2) + "\n");
  const ParameterTable parameters = parameters_of(*make_wan(kConfig));
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters) specs.push_back({p.name, DType::kF32, p.written_shape().dims()});
  const std::string file = fmt::format("{}.safetensors", weights_stem(Layout::kDiffusers));
  SafetensorsWriter writer(folder / "transformer" / file, specs);
  uint64_t number = 0;
  for (const Parameter& p : parameters) writer.append(p.name, fresh(p, number++).data(), DType::kF32, p.shape.elems());
  writer.commit();
}

// Mostly far enough from the wall ahead not to meet it.
MovingShape drawn(int64_t shape, RandomStream& random) {
  return {.shape = shape,
          .colour = random.below(kColourWords.size()),
          .direction = random.below(kDirectionWords.size()),
          .start = 0.5 * static_cast<double>(random.uniform()),
          .side = static_cast<double>(random.uniform())};
}

}  // namespace

std::string MovingShape::caption() const {
  return fmt::format("a {} {} moves {}", nth(kColourWords, colour), nth(kShapeWords, shape),
                     nth(kDirectionWords, direction));
}

std::vector<float> draw(const MovingShape& shape) {
  constexpr double kLow = kRadius, kHigh = kShapeSize - kRadius;
  // Red, green and blue of each colour.
  constexpr int kColours[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}};
  const bool is_across = shape.direction < 2, is_back = shape.direction % 2 == 0;
  std::vector<float> pixels;
  reserve(pixels, 3 * kShapeFrames * kShapeSize * kShapeSize);
  for (int64_t channel = 0; channel < 3; ++channel) {
    const bool is_lit = kColours[shape.colour][channel] == 1;
    for (int64_t frame = 0; frame < kShapeFrames; ++frame) {
      const double gone = shape.start * (kHigh - kLow) + kSpeed * static_cast<double>(frame);
      const double along = bounced(is_back ? kHigh - gone : kLow + gone, kLow, kHigh);
      const double across = kLow + shape.side * (kHigh - kLow);
      const double x = is_across ? along : across, y = is_across ? across : along;
      for (int64_t row = 0; row < kShapeSize; ++row) {
        for (int64_t column = 0; column < kShapeSize; ++column) {
          const double outside =
              distance_to(shape.shape, static_cast<double>(column) + 0.5 - x, static_cast<double>(row) + 0.5 - y);
          const double cover = std::clamp(0.5 - outside, 0.0, 1.0);
          pixels.push_back(is_lit ? static_cast<float>(2 * cover - 1) : -1.0F);
        }
      }
    }
  }
  return pixels;
}

void write_moving_shapes(const fs::path& folder, const MovingShapesOptions& options,
                         const std::function<void(int64_t done, int64_t of)>& progress) {
  const std::vector<float> table = table_of_words();
  write_model(folder / "model");
  int64_t done = 0;
  const auto write = [&](const char* name, int64_t count, uint64_t stream, const auto& shape_of) {
    create_folders(folder / name);
    RandomStream random(options.seed, stream);
    for (int64_t i = 0; i < count; ++i) {
      write_row(folder / name / fmt::format("{:06}.safetensors", i), drawn(shape_of(random), random), table);
      progress(++done, options.clips + options.other_clips);
    }
  };
  const auto others = static_cast<uint32_t>(kShapeWords.size() - 1);
  write("clips", options.clips, kClips, [&](RandomStream& random) { return random.below(others); });
  write("triangles", options.other_clips, kOthers, [&](RandomStream&) { return others; });
  create_folders(folder / "prompts");
  for (int64_t colour = 0; colour < std::ssize(kColourWords); ++colour) {
    const MovingShape shape{.shape = colour % 3, .colour = colour, .direction = colour % 4};
    std::string name = shape.caption();
    std::replace(name.begin(), name.end(), ' ', '-');
    write_text(folder / "prompts" / (name + ".safetensors"), text_of(shape, table));
  }
  Json rows = Json::object();
  int64_t row = 0;
  for (const auto& words : {std::vector<std::string_view>(kShapeWords.begin(), kShapeWords.end()),
                            {kColourWords.begin(), kColourWords.end()},
                            {kDirectionWords.begin(), kDirectionWords.end()}})
    for (const std::string_view word : words) rows[word] = row++;
  write_file(folder / "prompts.json", json_text(rows, 2) + "\n");
}

}  // namespace spillway

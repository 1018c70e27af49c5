#include "infer/clips/pixels.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_field.h"
#include "io/file.h"

namespace spillway::infer {

LatentNumbers read_latent_numbers(const JsonField& vae) {
  constexpr double kSmallest = 1e-6, kLargest = 1e6;
  const auto read = [&](std::string_view key, double least) {
    std::vector<float> numbers;
    for (const JsonField& number : vae[key].elements())
      numbers.push_back(static_cast<float>(number.real(least, kLargest)));
    return numbers;
  };
  return {read("latents_mean", -kLargest), read("latents_std", kSmallest)};
}

std::vector<float> Pixels::of(std::span<const float> latents, const data::ClipShape& shape) const {
  std::vector<float> pixels(latents.begin(), latents.end());
  const auto plane = static_cast<size_t>(shape.elems() / shape.channels);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = pixels[i] * deviation[i / plane] + mean[i / plane];
  return pixels;
}

std::optional<Pixels> read_pixels(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".." / "vae" / "config.json";
  if (!std::filesystem::exists(path)) return {};
  const JsonDocument document(read_file(path, 4 * kMiB), path.lexically_normal().string());
  const JsonField json = document.root();
  if (!json["latents"].is_string() || json["latents"].string() != "pixels") return {};
  const LatentNumbers numbers = read_latent_numbers(json);
  constexpr size_t kColours = 3;
  if (numbers.mean.size() != kColours || numbers.deviation.size() != kColours)
    throw json["latents_mean"].bad("three numbers beside latents of pixels", "write red, green and blue");
  return Pixels{numbers.mean, numbers.deviation};
}

}  // namespace spillway::infer

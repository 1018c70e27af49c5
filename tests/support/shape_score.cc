#include "tests/support/shape_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "base/temporary_folder.h"
#include "cli/examples/moving_shapes.h"
#include "infer/clips/pixels.h"
#include "io/safetensors.h"
#include "tests/support/process.h"
#include "tests/support/shape_detector.h"

namespace spillway::testing {
namespace {

namespace fs = std::filesystem;

// Returns the word in the prompt, between or after its dashes.
std::optional<int64_t> word_of(const std::string& prompt, std::span<const std::string_view> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if ((prompt + "-").find(fmt::format("-{}-", words[i])) != std::string::npos) return static_cast<int64_t>(i);
  }
  return {};
}

std::vector<fs::path> prompts_of(const fs::path& example) {
  std::vector<fs::path> prompts;
  for (const fs::directory_entry& entry : fs::directory_iterator(example / "prompts")) prompts.push_back(entry.path());
  std::sort(prompts.begin(), prompts.end());
  return prompts;
}

// Pixels from -1 to 1.
std::vector<float> drawn(const fs::path& model, const fs::path& prompt, uint64_t seed, double guidance) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "clip.safetensors";
  const Finished finished =
      run_spillway({"sample", model.string(), "--text", prompt.string(), "--text-len", "3", "--shape",
                    fmt::format("3,{},{},{}", kShapeFrames, kShapeSize, kShapeSize), "--seed", std::to_string(seed),
                    "--guidance", std::to_string(guidance), "--out", out.string()});
  if (finished.status != 0) throw std::runtime_error(finished.err);
  const SafetensorsFile file(out);
  const StoredTensor& latents = file.tensors().front();
  std::vector<float> values(static_cast<size_t>(latents.elems()));
  file.read(latents, 0, latents.elems(), DType::kF32, values.data());
  return infer::read_pixels(model / "transformer")->of(values, {3, kShapeFrames, kShapeSize, kShapeSize});
}

}  // namespace

std::vector<ScoredClip> score_moving_shapes(const fs::path& example, const fs::path& model,
                                            const std::vector<uint64_t>& seeds, double guidance) {
  std::vector<ScoredClip> clips;
  for (const fs::path& prompt : prompts_of(example)) {
    const std::string name = prompt.stem().string();
    for (const uint64_t seed : seeds) {
      const DetectedShape found = detect_shape(drawn(model, prompt, seed, guidance));
      clips.push_back({.prompt = name,
                       .seed = seed,
                       .has_colour = found.colour && found.colour == word_of(name, kColourWords),
                       .has_direction = found.direction && found.direction == word_of(name, kDirectionWords)});
    }
  }
  return clips;
}

}  // namespace spillway::testing

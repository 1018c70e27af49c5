#include "tests/support/video_run.h"

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "tests/support/source_folder.h"

namespace spillway::testing {

namespace fs = std::filesystem;

fs::path video_golden(const std::string& name) { return source_folder() / "tests/golden/video" / name; }

std::string video_lines(const std::string& name, bool has_lora, const fs::path& output) {
  const fs::path golden = video_golden(name);
  const auto facts = nlohmann::json::parse(read_file(golden / "golden.json", 1 << 20));
  const bool has_image = name == "i2v";
  std::string text =
      fmt::format(R"(
base_model: {0}
datasets: [{{path: {0}/clips, type: video_latents}}]
curriculum_sampling: true
micro_batch_size: 2
gradient_accumulation_steps: 2
max_steps: 10
learning_rate: 3e-3
lr_scheduler: constant
weight_decay: 0.05
optimizer: adamw_torch
text_len: {1}
precondition_outputs: {2}
bf16: false
save_strategy: "no"
output_dir: {3}
)",
                  (golden).string(), has_image ? 512 : 6, facts["preconditions"].get<bool>(), output.string());
  if (has_lora) text += fmt::format("adapter: lora\nlora_model_dir: {}\n", (golden / "lora").string());
  return text;
}

config::Config video_config(const std::string& name, bool has_lora, const fs::path& output,
                            const std::vector<config::ConfigOverride>& changes) {
  const std::string lines = video_lines(name, has_lora, output);
  config::Config config = config::load_config(lines, "video.yml", changes, config::ConfigUse::kTrain).config;
  config.model.base_model = (video_golden(name) / config.video.component).string();
  return config;
}

fs::path clips_to_draw_for(const std::string& name, const fs::path& folder) {
  const fs::path rows = folder / "clips";
  fs::create_directories(rows);
  for (const fs::directory_entry& entry : fs::directory_iterator(video_golden(name) / "clips")) {
    const SafetensorsFile file(entry.path());
    std::vector<TensorSpec> specs;
    for (const StoredTensor& tensor : file.tensors()) {
      if (tensor.name != "noise" && tensor.name != "timestep")
        specs.push_back({tensor.name, DType::kF32, tensor.shape});
    }
    SafetensorsWriter writer(rows / entry.path().filename(), specs);
    for (const StoredTensor& tensor : file.tensors()) {
      if (tensor.name == "noise" || tensor.name == "timestep") continue;
      std::vector<float> values(static_cast<size_t>(tensor.elems()));
      file.read(tensor, 0, tensor.elems(), DType::kF32, values.data());
      writer.append(tensor.name, values.data(), DType::kF32, tensor.elems());
    }
    writer.commit();
  }
  return rows;
}

fs::path video_weights(const fs::path& output, bool has_lora) {
  return has_lora ? output / "pytorch_lora_weights.safetensors"
                  : output / "transformer" / "diffusion_pytorch_model.safetensors";
}

}  // namespace spillway::testing

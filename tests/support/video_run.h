// Jobs over the tiny Wans and clips of tests/golden/video (tools/make_video_goldens.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/load.h"

namespace spillway::testing {

inline constexpr const char* kTinyWans[] = {"t2v", "i2v", "odd"};

[[nodiscard]] std::filesystem::path video_golden(const std::string& name);
// Returns the config of the training of the golden numbers, writing to `output`; with `has_lora`, LoRA from the
// golden's own start.
[[nodiscard]] std::string video_lines(const std::string& name, bool has_lora, const std::filesystem::path& output);
// Returns that config, ready for train::make_job().
[[nodiscard]] config::Config video_config(const std::string& name, bool has_lora, const std::filesystem::path& output,
                                          const std::vector<config::ConfigOverride>& changes = {});
// Writes the golden's clips without their noise and timesteps, which are then drawn, below `folder`.
[[nodiscard]] std::filesystem::path clips_to_draw_for(const std::string& name, const std::filesystem::path& folder);
// Returns the file of the trained weights below `output`.
[[nodiscard]] std::filesystem::path video_weights(const std::filesystem::path& output, bool has_lora);

}  // namespace spillway::testing

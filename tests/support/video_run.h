// Jobs over the tiny Wans and clips of tests/golden/video (tools/make_video_goldens.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/load.h"

namespace spillway::testing {

inline constexpr const char* kTinyWans[] = {"t2v", "i2v", "odd"};

[[nodiscard]] std::filesystem::path video_golden(const std::string& name);
// The lines of the training that the golden numbers are of, into `output`; with LoRA from the golden's own start where
// `has_lora`.
[[nodiscard]] std::string video_lines(const std::string& name, bool has_lora, const std::filesystem::path& output);
// That training, ready for train::make_job().
[[nodiscard]] config::Config video_config(const std::string& name, bool has_lora, const std::filesystem::path& output,
                                          const std::vector<config::ConfigOverride>& changes = {});
// The golden's clips without noise and timesteps of their own, written below `folder`: those are drawn then.
[[nodiscard]] std::filesystem::path clips_to_draw_for(const std::string& name, const std::filesystem::path& folder);
// The file of the trained weights below `output`.
[[nodiscard]] std::filesystem::path video_weights(const std::filesystem::path& output, bool has_lora);

}  // namespace spillway::testing

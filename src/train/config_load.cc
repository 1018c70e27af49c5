#include "train/config_load.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file.h"
#include "train/config_check.h"
#include "train/config_settings.h"
#include "train/deepspeed.h"
#include "train/fsdp.h"
#include "train/yaml.h"

namespace spillway::train {
namespace {

constexpr int64_t kLargestConfig = kMiB;

std::string read_standard_input() {
  std::string text;
  std::array<char, 65536> part;
  while (true) {
    const ssize_t got = read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw machine_error("-", "expected to read standard input, got {}; give a file", std::strerror(errno));
    if (got == 0) return text;
    text.append(part.data(), static_cast<size_t>(got));
    if (text.size() > static_cast<size_t>(kLargestConfig)) return text;  // the YAML reader says that it is too long
  }
}

}  // namespace

LoadedConfig load_config(std::string_view text, std::string_view name, std::span<const ConfigOverride> overrides,
                         ConfigUse use) {
  const YamlNode root = parse_yaml(text, name);
  std::vector<Setting> settings = collect_settings(root, KeyPlace{std::string(name), 0, ""});
  apply_overrides(settings, overrides);
  LoadedConfig loaded;
  merge_deepspeed(settings, loaded);
  merge_fsdp(settings, loaded);
  const std::vector<std::string> ignored = read_settings(settings, &loaded.config);
  loaded.ignored.insert(loaded.ignored.begin(), ignored.begin(), ignored.end());
  for (const Setting& setting : settings) {
    if (!setting.value.is_null()) loaded.given.emplace(setting.key->name, setting.place.text());
  }
  complete_config(loaded, use);
  return loaded;
}

LoadedConfig load_config_file(const std::string& path, std::span<const ConfigOverride> overrides, ConfigUse use) {
  if (path == "-") return load_config(read_standard_input(), "standard input", overrides, use);
  return load_config(read_file(path, kLargestConfig), path, overrides, use);
}

std::string ignored_line(const LoadedConfig& loaded) {
  if (loaded.ignored.empty()) return "";
  return fmt::format("ignored: {} (they cannot matter here)", fmt::join(loaded.ignored, ", "));
}

}  // namespace spillway::train

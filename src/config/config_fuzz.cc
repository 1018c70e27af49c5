// Any bytes as a config: an InputError of one line, or verdicts with such messages, in bounded time and memory. Leading
// lines `--KEY=VALUE` stand for the command line.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<config::ConfigOverride> overrides;
  while (text.starts_with("--")) {
    const std::string_view line = text.substr(2, text.find('\n') - 2);
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      overrides.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
    } else if (line == "-") {
      break;
    }
    text.remove_prefix(std::min(text.size(), line.size() + 3));
  }
  const auto check_message = [](std::string_view message) {
    SPILLWAY_CHECK(message.starts_with('[') && message.find('\n') == std::string_view::npos, "{}", message);
  };
  try {
    const auto loaded = config::check_config(text, "c.yml", overrides, config::ConfigUse::kTrain);
    for (const config::KeyVerdict& key : loaded.verdicts.keys()) {
      if (!key.message.empty()) check_message(key.message);
    }
    if (const std::string problem = config::first_problem(loaded); !problem.empty()) check_message(problem);
    (void)loaded.config.output.save.steps(1000, 100);
    (void)loaded.config.output.evaluate.steps(1000, 100);
    (void)loaded.config.schedule.warmup.of(1000);
  } catch (const InputError& error) {
    check_message(error.what());
  }
  return 0;
}

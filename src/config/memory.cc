#include "config/memory.h"

#include "backend/device.h"
#include "base/bytes.h"
#include "config/values.h"

namespace spillway::config {
namespace {

// Sizes are compared as if they were of one machine: how much 80% is, nobody knows yet.
int64_t comparable_bytes(const std::string& size, std::string_view where) { return parse_bytes(size, kGiB, where); }

// A budget of `memory`, and the key that it came from.
struct OurBudget {
  std::string_view name;
  std::string& size;
  std::string& key;
};

// `key`, which is the top-level key `given` or stands below it, says the size of one of our budgets.
void adopt(LoadedConfig& loaded, std::string_view given, const std::string& key, const std::string& size,
           OurBudget ours) {
  // "c.yml:3: max_memory" and "max_memory.cpu" -> "c.yml:3: max_memory.cpu"; a command line may have named the entry
  std::string place = loaded.given.find(given)->second;
  if (!place.ends_with(key)) place += key.substr(given.size());
  const int64_t bytes = comparable_bytes(size, place);
  if (!ours.size.empty()) {
    if (comparable_bytes(ours.size, loaded.given.find(ours.name)->second) == bytes) return;
    throw input_error(place, "expected the {} of {}, which is the same budget, got {}; remove one", ours.size,
                      ours.name, size);
  }
  ours.size = size;
  ours.key = key;
  loaded.given.emplace(ours.name, place);
}

// "20" -> "20GiB"; empty where it is axolotl's way to say that there is no limit.
std::string limit_of(const std::string& text) {
  const YamlNode node = YamlNode::scalar(text);
  const std::optional<double> number = number_of(node);
  if (number == 0.0 || boolean_of(node) == false || text == "none") return "";
  return number ? text + "GiB" : text;
}

}  // namespace

void complete_memory(LoadedConfig& loaded) {
  Config& config = loaded.config;
  MemoryConfig& memory = config.memory;
  const std::string limit = limit_of(config.gpu_memory_limit);
  const auto& sizes = config.max_memory.sizes;
  if (!limit.empty() && !sizes.empty()) {
    throw input_error(loaded.given.find("max_memory")->second,
                      "expected gpu_memory_limit or max_memory, got both; remove one");
  }
  const OurBudget device{"memory.device", memory.device, memory.device_key};
  const OurBudget host{"memory.host", memory.host, memory.host_key};
  const OurBudget disk{"memory.disk", memory.disk, memory.disk_key};
  if (!limit.empty()) adopt(loaded, "gpu_memory_limit", "gpu_memory_limit", limit, device);
  const std::string trains = fmt::format("{}", gpu_of(config.device).value_or(0));
  for (const auto& [name, size] : sizes) {
    const std::string key = "max_memory." + name;
    if (name == trains || name == "cpu" || name == "disk") {
      adopt(loaded, "max_memory", key, size, name == "cpu" ? host : name == "disk" ? disk : device);
    } else {
      loaded.notes.push_back(fmt::format("{} does not matter: device {} trains", key, trains));
    }
  }
}

}  // namespace spillway::config

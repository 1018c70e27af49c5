// Budgets, those in the words of axolotl and accelerate too.
#include "backend/device.h"
#include "base/bytes.h"
#include "base/text.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

// Sizes are compared as if they were of one machine: how much 80% is, nobody knows yet.
int64_t comparable_bytes(const std::string& size, std::string_view where) { return parse_bytes(size, kGiB, where); }

// `key`, which is the top-level key `given` or stands below it, says the size of one of our budgets.
void adopt(const Resolution& r, std::string_view given, const std::string& key, const std::string& size,
           TierBudget& ours) {
  // "c.yml:3: max_memory" and "max_memory.cpu" -> "c.yml:3: max_memory.cpu"; a command line may have named the entry
  std::string place = r.where(given);
  if (!place.ends_with(key)) place += key.substr(given.size());
  const int64_t bytes = comparable_bytes(size, place);
  if (!ours.size.empty()) {
    if (comparable_bytes(ours.size, r.where(ours.key)) == bytes) return;
    throw input_error(place, "expected the {} of {}, which is the same budget, got {}; remove one", ours.size, ours.key,
                      size);
  }
  r.loaded.given.emplace(ours.key, place);
  ours.size = size;
  ours.key = key;
}

// "20" -> "20GiB"; empty where it is axolotl's way to say that there is no limit.
std::string limit_of(const std::string& text) {
  const YamlNode node = YamlNode::scalar(text);
  const std::optional<double> number = number_of(node);
  if (number == 0.0 || boolean_of(node) == false || text == "none") return "";
  return number ? text + "GiB" : text;
}

void adopt_others(const Resolution& r, MemorySettings& memory) {
  const std::string limit = limit_of(r.keys.gpu_memory_limit);
  const auto& sizes = r.keys.max_memory.sizes;
  if (!limit.empty() && !sizes.empty()) {
    throw input_error(r.where("max_memory"), "expected gpu_memory_limit or max_memory, got both; remove one");
  }
  if (!limit.empty()) adopt(r, "gpu_memory_limit", "gpu_memory_limit", limit, memory.device);
  const std::string trains = fmt::format("{}", gpu_of(r.keys.device).value_or(0));
  for (const auto& [name, size] : sizes) {
    const std::string key = "max_memory." + name;
    if (name == trains || name == "cpu" || name == "disk") {
      adopt(r, "max_memory", key, size, name == "cpu" ? memory.host : name == "disk" ? memory.disk : memory.device);
    } else {
      r.note(fmt::format("{} does not matter: device {} trains", key, trains));
    }
  }
}

// Only the form is checked: how much 80% is, is the planner's business.
void check_sizes(const Resolution& r, const MemorySettings& memory) {
  constexpr int64_t kAnyMachine = kGiB;
  for (const auto& [key, budget] :
       {std::pair{"memory.device", &memory.device}, {"memory.host", &memory.host}, {"memory.disk", &memory.disk}}) {
    if (!budget->size.empty()) (void)parse_bytes(budget->size, kAnyMachine, r.where(key));
  }
  // A tier can be switched off; what computes has to be somewhere.
  if (!memory.device.size.empty() && parse_bytes(memory.device.size, kAnyMachine, "") == 0) {
    throw input_error(r.where("memory.device"), "expected more than nothing, got {}; raise it, or leave it out",
                      quote(memory.device.size));
  }
}

}  // namespace

MemorySettings resolve_memory(const Resolution& r) {
  const Spelled& keys = r.keys;
  MemorySettings memory{.disk_checksum = keys.memory_disk_checksum};
  memory.device.size = keys.memory_device;
  memory.host.size = keys.memory_host;
  memory.disk.size = keys.memory_disk;
  memory.host.is_asked = keys.uses_host;
  memory.disks_are_named = !keys.memory_disk_paths.empty();
  memory.disk.is_asked = keys.uses_disk || memory.disks_are_named;
  memory.disk_paths =
      memory.disks_are_named ? keys.memory_disk_paths : std::vector<std::string>{keys.output_dir + "/scratch"};
  adopt_others(r, memory);
  check_sizes(r, memory);
  return memory;
}

}  // namespace spillway::config

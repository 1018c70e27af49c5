#include "train/lora_pattern.h"

#include "base/error.h"
#include "base/text.h"
#include "config/module_pattern.h"
#include "model/adapter.h"

namespace spillway::train {
std::set<std::string, std::less<>> modules_matching(const ModelConfig& model, std::string_view pattern,
                                                    std::string_view where) {
  const text::Regex regex = config::whole_path(pattern, where);
  text::RegexScratch scratch;
  std::set<std::string, std::less<>> paths;
  for (const LinearModule& module : lora_targets(model, {}, where)) {
    regex.find_all(module.name, scratch, [&](size_t, size_t) { paths.insert(module.name); });
  }
  if (paths.empty()) {
    throw input_error(where, "expected a pattern that matches layers such as {}, got {}; change it",
                      lora_targets(model, {}, where).front().name, quote(pattern));
  }
  return paths;
}

}  // namespace spillway::train

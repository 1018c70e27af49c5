#include "job/lora_pattern.h"

#include "base/error.h"
#include "base/text.h"
#include "config/module_pattern.h"
#include "model/adapter_targets.h"

namespace spillway::train {

std::set<std::string, std::less<>> modules_matching(const ParameterTable& parameters, std::string_view pattern,
                                                    std::string_view where) {
  const text::Regex regex = config::whole_path(pattern, where);
  text::RegexScratch scratch;
  std::set<std::string, std::less<>> paths;
  const std::vector<std::string> modules = lora_targets(parameters, {}, where);
  for (const std::string& module : modules) {
    regex.find_all(module, scratch, [&](size_t, size_t) { paths.insert(module); });
  }
  if (paths.empty()) {
    throw input_error(where, "expected a pattern that matches layers such as {}, got {}; change it", modules.front(),
                      quote(pattern));
  }
  return paths;
}

}  // namespace spillway::train

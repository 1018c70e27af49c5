#include "job/lora_pattern.h"

#include "base/error.h"
#include "base/text.h"
#include "config/module_pattern.h"
#include "model/adapter_targets.h"

namespace spillway::train {
namespace {

// Returns the modules for which PEFT has factors and this program has none. A tied head is a module, too.
std::vector<std::string> modules_without_factors(const ParameterTable& parameters) {
  std::vector<std::string> modules;
  bool has_head = false, has_embedding = false;
  for (const Parameter& p : parameters) {
    const bool is_embedding = p.role == ParameterRole::kEmbedding;
    has_embedding = has_embedding || is_embedding;
    has_head = has_head || p.role == ParameterRole::kHead || p.role == ParameterRole::kScore;
    if (is_embedding || p.role == ParameterRole::kHead || p.role == ParameterRole::kProjection ||
        p.role == ParameterRole::kConvolution)
      modules.push_back(p.module);
  }
  if (has_embedding && !has_head) modules.emplace_back("lm_head");
  return modules;
}

}  // namespace

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
  for (const std::string& module : modules_without_factors(parameters)) {
    regex.find_all(module, scratch, [&](size_t, size_t) {
      throw input_error(where,
                        "expected a pattern of layers that can have factors, got {}, which matches {} as well; {}",
                        quote(pattern), module, "narrow it, or train that one by modules_to_save");
    });
  }
  return paths;
}

}  // namespace spillway::train

#include "train/lora_pattern.h"

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/regex.h"
#include "model/adapter.h"

namespace spillway::train {
namespace {

data::Regex whole_path(std::string_view pattern, std::string_view where) {
  return {fmt::format("^(?:{})$", pattern), where};
}

}  // namespace

bool is_module_pattern(std::string_view name) { return name.find_first_of("\\*+?[](){}|^$") != std::string_view::npos; }

void check_module_pattern(std::string_view pattern, std::string_view where) {
  (void)data::Regex(pattern, where);  // as written, so that a message counts bytes from its start
  (void)whole_path(pattern, where);
}

std::set<std::string, std::less<>> modules_matching(const ModelConfig& model, std::string_view pattern,
                                                    std::string_view where) {
  const data::Regex regex = whole_path(pattern, where);
  data::RegexScratch scratch;
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

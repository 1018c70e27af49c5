#include "train/template_name.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "data/chat_template.h"
#include "train/config_verdict.h"

namespace spillway::train {
namespace {

// Axolotl's, of models that are not read here.
constexpr std::string_view kToCome[] = {
    "command_a", "command_a_rag", "command_a_tool_use", "gemma4", "gemma4_unified", "llama3_2_vision", "qwen3_5"};

}  // namespace

void check_template_name(std::string_view name, std::string_view where) {
  constexpr std::string_view kOwn = "tokenizer_default", kFallback = "tokenizer_default_fallback_", kText = "jinja";
  if (name.empty() || name == kOwn || name == kText) return;
  const std::string_view builtin = name.starts_with(kFallback) ? name.substr(kFallback.size()) : name;
  if (data::builtin_chat_template(builtin)) return;
  std::vector<std::string_view> names = data::builtin_chat_template_names();
  names.insert(names.end(), {kOwn, kText});
  if (std::find(std::begin(kToCome), std::end(kToCome), builtin) != std::end(kToCome)) {
    throw NotYetError(
        fmt::format("[{}] expected {}, got {}; this template is not yet built in, give it as "
                    "chat_template_jinja",
                    where, joined_names(names), quote(name)));
  }
  const std::string_view near = nearest_name(builtin, names);
  throw input_error(where, "expected {}, got {}; {}", joined_names(names), quote(name),
                    near.empty() ? "write one of them, or chat_template_jinja with a template of your own"
                                 : fmt::format("did you mean {}?", near));
}

}  // namespace spillway::train

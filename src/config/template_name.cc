#include "config/template_name.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "text/chat_template.h"

namespace spillway::config {
namespace {

// Axolotl's, which write pages of instructions in the words of the model's maker.
constexpr std::string_view kOfTheirMaker[] = {"command_a", "command_a_rag", "command_a_tool_use"};

}  // namespace

void check_template_name(std::string_view name, std::string_view where) {
  constexpr std::string_view kOwn = "tokenizer_default", kFallback = "tokenizer_default_fallback_", kText = "jinja";
  if (name.empty() || name == kOwn || name == kText) return;
  const std::string_view builtin = name.starts_with(kFallback) ? name.substr(kFallback.size()) : name;
  if (text::builtin_chat_template(builtin)) return;
  std::vector<std::string_view> names = text::builtin_chat_template_names();
  names.insert(names.end(), {kOwn, kText});
  if (std::find(std::begin(kOfTheirMaker), std::end(kOfTheirMaker), builtin) != std::end(kOfTheirMaker)) {
    throw input_error(
        where,
        "expected {}, got {}; this template is its maker's text and not built in: tokenizer_default takes "
        "the one that comes with the model, chat_template_jinja a file",
        joined_names(names), quote(name));
  }
  const std::string_view near = nearest_name(builtin, names);
  throw input_error(where, "expected {}, got {}; {}", joined_names(names), quote(name),
                    near.empty() ? "write one of them, or chat_template_jinja with a template of your own"
                                 : fmt::format("did you mean {}?", near));
}

}  // namespace spillway::config

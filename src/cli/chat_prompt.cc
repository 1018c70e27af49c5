#include "cli/chat_prompt.h"

#include "base/json.h"
#include "io/file.h"
#include "io/json_lines.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

}  // namespace

std::string render_prompt(std::string_view text, const text::ChatTemplates& chats, const text::Tokenizer& tokenizer,
                          std::string_view where, text::LeftOutWarnings& warnings) {
  return text::render_prompt(parse_json<Json>(text, where), chats, tokenizer, where, warnings);
}

std::vector<std::string> render_prompts(const std::string& path, bool json_lines, const text::Tokenizer& tokenizer,
                                        const std::string& model) {
  const text::ChatTemplates chats = text::chat_templates_of(tokenizer, model);
  std::vector<std::string> prompts;
  text::LeftOutWarnings warnings;
  const auto add = [&](std::string_view text, const std::string& where) {
    prompts.push_back(render_prompt(text, chats, tokenizer, where, warnings));
  };
  if (!json_lines) {
    add(read_file(path, kMaxFileBytes), path);
    return prompts;
  }
  each_line(path, [&](std::string_view line, const std::string& where) {
    if (!line.empty()) add(line, where);
  });
  return prompts;
}

}  // namespace spillway

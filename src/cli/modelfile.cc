#include "cli/modelfile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/ollama_template.h"
#include "io/file.h"
#include "text/conversation.h"

namespace spillway {
namespace {

using nlohmann::json;

// Returns the BOS token if Ollama puts it before every text.
std::string own_bos(const text::Tokenizer& tokenizer) {
  const text::Tokenizer::Marks marks = tokenizer.marks();
  const bool has_bos = marks.before.size() == 1 && tokenizer.bos_id() == marks.before[0];
  return has_bos ? tokenizer.bos_token() : "";
}

std::string without_template(std::string_view why) {
  log_warning("no TEMPLATE in the Modelfile: {}; Ollama will have none unless it knows the model's own", why);
  return fmt::format(
      "# No TEMPLATE: {}. Ollama has one only if it knows the template in the GGUF file.\n"
      "# Write one (https://docs.ollama.com/template), or talk to the model with: spillway chat\n",
      why);
}

std::string template_lines(const text::Tokenizer& tokenizer) {
  const std::optional<std::string> source = tokenizer.chat_template();
  if (!source) return without_template("the model has no chat template, it continues texts");
  const auto chat = text::ChatTemplate::compile(*source, "chat template");
  const nlohmann::ordered_json variables =
      text::chat_input(nlohmann::ordered_json::array(), tokenizer, true, "").variables;
  const std::optional<OllamaTemplate> found = ollama_template(chat, variables, own_bos(tokenizer));
  if (!found) return without_template("the chat template does more than put texts around turns");
  std::string text;
  if (source->find("tools") != std::string::npos) text += "# TEMPLATE leaves out tools.\n";
  if (chat.asks_for_time())
    text += "# A date in TEMPLATE is that on which it was written: Ollama has no clock there.\n";
  if (!found->has_system) text += "# The chat template has no place for a system message.\n";
  text += fmt::format("TEMPLATE \"\"\"{}\"\"\"\n", found->text);
  if (found->system && found->system->find("\"\"\"") == std::string::npos)
    text += fmt::format("SYSTEM \"\"\"{}\"\"\"\n", *found->system);
  return text;
}

std::string stop_lines(const text::Tokenizer& tokenizer) {
  std::string text;
  for (const int32_t id : tokenizer.stop_ids()) {
    const std::string token = tokenizer.id_to_token(id);
    // A parameter is one line in quotes, which the format cannot escape.
    if (!token.empty() && token.find_first_of("\"\n\r") == std::string::npos)
      text += fmt::format("PARAMETER stop \"{}\"\n", token);
  }
  return text;
}

// Returns the sampling that the model's authors advise, by Ollama's names.
std::string sampling_lines(const std::filesystem::path& folder) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"temperature", "temperature"},
                                                            {"top_k", "top_k"},
                                                            {"top_p", "top_p"},
                                                            {"min_p", "min_p"},
                                                            {"repetition_penalty", "repeat_penalty"}};
  const std::filesystem::path path = folder / "generation_config.json";
  if (!std::filesystem::exists(path)) return "";
  const auto generation = parse_json<json>(read_file(path, kMiB), path.string());
  if (!generation.is_object()) return "";
  const bool samples = generation.value("do_sample", json()) == json(true);
  std::string text;
  for (const auto& [key, name] : kNames) {
    const auto found = generation.find(key);
    if (found == generation.end() || !found->is_number() || (!samples && key != kNames[4].first)) continue;
    text += fmt::format("PARAMETER {} {}\n", name, found->dump());
  }
  return text;
}

}  // namespace

std::string modelfile_text(const ModelfileSource& source, const text::Tokenizer& tokenizer) {
  std::string text = fmt::format("FROM {}\n", source.from);
  if (!source.adapter.empty()) text += fmt::format("ADAPTER {}\n", source.adapter);
  return text + template_lines(tokenizer) + stop_lines(tokenizer) + sampling_lines(source.folder);
}

}  // namespace spillway

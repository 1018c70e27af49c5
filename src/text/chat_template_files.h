// The files of chat templates in a model's folder: chat_template.jinja, and additional_chat_templates/NAME.jinja.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace spillway::text {

// Names and sources of chat templates. The usual one is "default"; transformers renders "tool_use" where there are
// tools.
using ChatTemplateSources = std::vector<std::pair<std::string, std::string>>;

// The folder of templates beside the usual one.
constexpr const char* kAdditionalChatTemplates = "additional_chat_templates";

// Returns the files of that folder of a model, by name.
[[nodiscard]] std::vector<std::filesystem::path> additional_chat_template_files(const std::filesystem::path& folder);

// Reads all these files. As in transformers, they stand for all templates of tokenizer_config.json if there is one.
// Throws InputError for a file that cannot be read.
[[nodiscard]] ChatTemplateSources read_chat_template_files(const std::filesystem::path& folder);

}  // namespace spillway::text

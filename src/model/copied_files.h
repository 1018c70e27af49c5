// The files of a model's folder that are not weights, for folders that are made from it.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace spillway {

// Returns true if a file is the tokenizer's, or its chat template. `name` is its path within the folder.
[[nodiscard]] bool is_of_tokenizer(std::string_view name);
[[nodiscard]] bool is_chat_template(std::string_view name);

// Returns true for logs and records that training leaves in a model's folder and that are not part of the model.
[[nodiscard]] bool is_of_run(std::string_view name);

// Returns the files of `folder`, with those of additional_chat_templates, that are `wanted`, except for weights in any
// format (they are those of the original model, and may be large), README.md, which describes that model, logs of a
// run, and records of commands. Call it before long work: it throws for a file that cannot be opened.
[[nodiscard]] std::vector<std::filesystem::path> files_to_copy(
    const std::filesystem::path& folder, const std::function<bool(std::string_view name)>& wanted);

// Copies these files into a folder, under the same paths within it, using little memory whatever their size.
void copy_files(const std::vector<std::filesystem::path>& files, const std::filesystem::path& to);

}  // namespace spillway

// The files of a model's folder that are not weights, for folders that are made of it.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace spillway {

// Whether a file is the tokenizer's, or its chat template.
[[nodiscard]] bool is_of_tokenizer(std::string_view name);

// The files of `folder` that are `wanted`, but for weights in whatever format (they are of the model as it was, and
// perhaps large), README.md, which describes that model, what a run has logged, and what a command has recorded. To be
// asked for before long work: throws for a file that cannot be opened.
[[nodiscard]] std::vector<std::filesystem::path> other_files(const std::filesystem::path& folder,
                                                             const std::function<bool(std::string_view name)>& wanted);

// Copies them into a folder, whatever their size in little memory.
void copy_files(const std::vector<std::filesystem::path>& files, const std::filesystem::path& to);

}  // namespace spillway

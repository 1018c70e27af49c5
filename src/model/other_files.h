// The files of a model's folder that are not weights, for folders that are made of it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace spillway {

// Whether a file is the tokenizer's, or its chat template.
[[nodiscard]] bool is_of_tokenizer(std::string_view name);

// Copies the files of `from` that are `wanted`, but for weights in whatever format (they are of the model as it was,
// and perhaps too large), README.md, which describes that model, and what a command has recorded.
void copy_other_files(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::function<bool(std::string_view name)>& wanted);

}  // namespace spillway

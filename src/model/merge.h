// A LoRA adapter folded into its base: W + scale B A.
#pragma once

#include <filesystem>

namespace spillway {

// Writes a complete model folder: the base's config and tokenizer files, and its weights with the adapter's products
// added in f32 and rounded to the dtypes of the base's files. One layer is in memory at a time. Throws InputError where
// the adapter does not fit the base, before anything is written.
void merge_adapter(const std::filesystem::path& model, const std::filesystem::path& adapter,
                   const std::filesystem::path& out);

}  // namespace spillway

// A LoRA adapter folded into its base: W + scale B A, and in place of W what the adapter has trained in full.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "model/model.h"

namespace spillway {

// Into which weights an adapter is merged.
enum class MergeBase : uint8_t {
  kFiles,      // those in the base's files
  kQuantised,  // as the run that trained the adapter saw them: quantised and back, so that the result is what was
               // trained
};

// Told the bytes of weights that are written, of how many; may throw to end it. May be empty.
using MergeProgress = std::function<void(int64_t done, int64_t total)>;

// Writes a complete model folder: the base's files, the tokenizer's from the adapter's folder where they are there, and
// the weights with the adapter's products added in f32 and rounded to the dtypes of the base's files; weights that
// these keep as codes are decoded, to the dtype that they were quantised from, and config.json says nothing of them. A
// head that the adapter has trained apart from its embedding is untied. One layer is in memory at a time. Throws
// InputError where the adapter does not fit the base, or `out` is not as io/output_folder.h wants it, before anything
// is written.
void merge_adapter(const std::filesystem::path& model, const std::filesystem::path& adapter,
                   const std::filesystem::path& out, MergeBase base = MergeBase::kFiles,
                   const MergeProgress& progress = {});
// The same with the model in that folder, or what is made of it.
void merge_adapter(ModelPtr read, const std::filesystem::path& model, const std::filesystem::path& adapter,
                   const std::filesystem::path& out, MergeBase base = MergeBase::kFiles,
                   const MergeProgress& progress = {});

}  // namespace spillway

// Merges a LoRA adapter into its base: W + scale B A, and the adapter's own weights for modules that it trained in
// full.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "model/model.h"

namespace spillway {

// The weights into which an adapter is merged.
enum class MergeBase : uint8_t {
  kFiles,      // those in the base's files
  kQuantised,  // as the run that trained the adapter saw them: quantised and back, so that the result is what was
               // trained
};

// Called with the bytes of weights that are written, and the total; may throw to stop. May be empty.
using MergeProgress = std::function<void(int64_t done, int64_t total)>;

// Writes a complete model folder: the base's files, the tokenizer's files from the adapter's folder if they are there,
// and the weights with the adapter's products added in f32 and rounded to the dtypes of the base's files. Quantised
// weights are decoded, to the dtype that they were quantised from, and config.json does not mention them. A head that
// the adapter has trained apart from its embedding is untied. One layer is in memory at a time. Throws InputError,
// before anything is written, if the adapter does not fit the base, or `out` breaks the rules of io/output_folder.h.
void merge_adapter(const std::filesystem::path& model, const std::filesystem::path& adapter,
                   const std::filesystem::path& out, MergeBase base = MergeBase::kFiles,
                   const MergeProgress& progress = {});
// The same with the model in that folder already read, or a model made of it.
void merge_adapter(ModelPtr read, const std::filesystem::path& model, const std::filesystem::path& adapter,
                   const std::filesystem::path& out, MergeBase base = MergeBase::kFiles,
                   const MergeProgress& progress = {});

}  // namespace spillway

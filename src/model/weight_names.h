// The names of the weights of a text model in its files and in transformers' class: of one that is a part of a larger
// one, beside towers for images or sound, and of families that have other names than most.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// The code of a family uses the names of a stand-alone model, "model.layers.0.mlp.up_proj" and "lm_head". This struct
// alone says what they are elsewhere; by default they are the same.
struct WeightNames {
  std::string stem = "model.";           // what paths begin with in transformers' class, by which PEFT goes, too
  std::string stem_in_files = "model.";  // in a model's files
  std::string head_in_files = "lm_head";
  std::string embedding = "embed_tokens";  // the module behind the stem
  bool is_part = false;                    // the files hold weights of other parts, too

  // Returns the path of a module or a weight.
  [[nodiscard]] std::string path(std::string_view name) const { return renamed(name, stem, "lm_head"); }
  [[nodiscard]] std::string in_files(std::string_view name) const {
    return renamed(name, stem_in_files, head_in_files);
  }
  // Returns the prefixes of the names of all its tensors in the files.
  [[nodiscard]] std::vector<std::string> beginnings() const { return {stem_in_files, head_in_files + "."}; }

 private:
  [[nodiscard]] std::string renamed(std::string_view name, std::string_view beginning, std::string_view head) const {
    constexpr std::string_view kStem = "model.", kHead = "lm_head", kEmbedding = "model.embed_tokens.";
    if (name.starts_with(kEmbedding))
      return fmt::format("{}{}.{}", beginning, embedding, name.substr(kEmbedding.size()));
    if (name.starts_with(kStem)) return fmt::format("{}{}", beginning, name.substr(kStem.size()));
    if (name.starts_with(kHead)) return fmt::format("{}{}", head, name.substr(kHead.size()));
    return std::string(name);
  }
};

}  // namespace spillway

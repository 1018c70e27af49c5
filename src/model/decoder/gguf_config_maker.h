// Makes a decoder's config.json from the metadata of a GGUF file, by the family's table.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/gguf.h"
#include "model/decoder/architecture.h"
#include "model/gguf/tokenizer.h"
#include "model/gguf/weights.h"
#include "tensor/dtype.h"

namespace spillway {

// Returns the shortest text's number that reads back to the same f32: GGUF keeps f32, where 1e-05 became
// 9.999999747378752e-06, and it is what the model's authors wrote.
[[nodiscard]] double shortest_number(double value);

// All references are borrowed and must outlive the maker.
class GgufConfigMaker {
 public:
  using Json = nlohmann::ordered_json;

  // `architecture`: that of the file.
  GgufConfigMaker(const GgufFile& file, const Architecture& architecture, const GgufTokenizerFiles& tokenizer,
                  DType dtype)
      : file_(file),
        name_(file.get<std::string>("general.architecture")),
        architecture_(architecture),
        family_(architecture_.gguf),
        tokenizer_(tokenizer),
        dtype_(dtype) {}

  [[nodiscard]] Json make() {
    add_sizes();
    add_heads();
    add_states();
    add_biases();
    add_head_norms();
    add_tokens();
    add_mixture();
    add_keys();
    add_windows();
    add_rope();
    return std::move(config_);
  }

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view got) const {
    throw input_error(file_.path().string(), "expected {} {}, got {}; use the model's original folder", key, expected,
                      got);
  }
  [[nodiscard]] std::string key_of(std::string_view name) const { return fmt::format("{}.{}", name_, name); }
  [[nodiscard]] int64_t checked(const std::string& key, int64_t value) const {
    constexpr int64_t kLargest = int64_t{1} << 31;
    if (value >= 1 && value <= kLargest) return value;
    throw input_error(file_.path().string(), "expected {} between 1 and {}, got {}; convert the model again", key,
                      kLargest, value);
  }
  [[nodiscard]] int64_t positive(std::string_view name) const {
    const std::string key = key_of(name);
    return checked(key, file_.get<int64_t>(key));
  }
  [[nodiscard]] int64_t positive_or(std::string_view name, int64_t missing) const {
    const std::string key = key_of(name);
    const int64_t* value = file_.find<int64_t>(key);
    return value == nullptr ? missing : checked(key, *value);
  }
  // Returns 0 for a number that is 0 or not there.
  [[nodiscard]] int64_t positive_or_none(std::string_view name) const {
    const int64_t* value = file_.find<int64_t>(key_of(name));
    return value == nullptr || *value == 0 ? 0 : positive(name);
  }
  [[nodiscard]] const double* find_real(std::string_view name) const { return file_.find<double>(key_of(name)); }
  [[nodiscard]] double real_or(std::string_view name, double missing) const {
    const double* value = find_real(name);
    return value == nullptr ? missing : shortest_number(*value);
  }

  // Returns a list of numbers, or null where there is none or one number for all.
  [[nodiscard]] const std::vector<int64_t>* find_list(std::string_view name) const;
  // Returns true for a flag that is there and set.
  [[nodiscard]] bool is_set(std::string_view name) const;

  void add_sizes();
  void add_heads();
  void add_latent_heads();
  void add_local_heads();
  void add_states();
  void add_spaces();
  void add_scans();
  // Adds the distance of the layers that `has` returns true for, and the first of them. Throws InputError if they are
  // not at equal distances.
  void add_every(const GgufEvery& every, std::string_view what, const std::function<bool(int64_t layer)>& has);
  // Returns true if the layer's number, or the one of all layers, is above 0.
  [[nodiscard]] bool has_number(std::string_view key, int64_t layer) const;
  // Returns what config.json calls the layer, in a model with state spaces.
  [[nodiscard]] std::string_view kind_of_layer(int64_t layer) const;
  void add_biases();
  void add_head_norms();
  void add_tokens();
  void add_mixture();
  void add_keys();
  void add_windows();
  void add_routing();
  void add_rope();
  void check_attention_factor() const;
  [[nodiscard]] Json scaling(double theta) const;
  [[nodiscard]] Json llama3_scaling(const GgufTensor& tensor, double theta) const;
  [[nodiscard]] Json longrope_scaling() const;
  [[nodiscard]] Json proportional_scaling() const;
  void add_sections(Json& rope) const;
  [[nodiscard]] std::vector<double> factors(std::string_view tensor) const;

  const GgufFile& file_;
  std::string name_;
  const Architecture& architecture_;
  const GgufFamily& family_;
  const GgufTokenizerFiles& tokenizer_;
  DType dtype_;
  int64_t head_dim_ = 0;
  Json config_;
};

}  // namespace spillway

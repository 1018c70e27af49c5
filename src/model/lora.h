// Low-rank adapters (Hu et al., 2021) with PEFT's names and rules: which linear layers get one, and its scale.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// The initial values of a fresh adapter's factors, by PEFT's names.
enum class LoraStart : uint8_t {
  kUniform,   // A as uniform numbers, B as zeros
  kGaussian,  // A as normal ones
  kPissa,     // the largest singular vectors of the weight, which are taken out of it (Meng et al., 2024)
  kOlora,     // the first columns and rows of its Q and R, which are taken out of it (Büyükakyüz, 2024)
  kLoftq,     // the largest singular vectors of what quantising loses of it (Li et al., 2023)
};

struct LoraOptions {
  int64_t r = 0;
  double alpha = 0;
  bool rslora = false;  // scale alpha / sqrt(r) instead of alpha / r
  bool dora = false;    // DoRA: rows of the adapted weight have norms that are trained
  double dropout = 0;   // of the adapter's input
  // Names as PEFT matches them: a module is adapted if its path equals one or ends in "." and one. Empty: all linear
  // layers but the head (`all-linear`).
  std::set<std::string, std::less<>> target_modules;
  // Names of the tensors of mixtures that get factors, matched likewise (PEFT's target_parameters):
  // "mlp.experts.gate_up_proj", of all experts, "gate.weight", a router's. Then no target_modules means none.
  std::set<std::string, std::less<>> target_parameters;
  // Exceptions from r and alpha, by paths of modules (PEFT's rank_pattern and alpha_pattern).
  std::map<std::string, int64_t, std::less<>> ranks;
  std::map<std::string, double, std::less<>> alphas;
  // Limits adapted modules in a list of layers to these layers; empty: all. `layers_pattern` has the possible names of
  // the list; empty: any.
  std::set<int64_t> layers_to_transform;
  std::vector<std::string> layers_pattern;
  LoraStart start = LoraStart::kUniform;
  std::optional<int64_t> start_iterations;  // of kPissa, by a randomised decomposition
  bool restarts = false;                    // the run merges the factors into their weights now and then (ReLoRA)
  // Modules that are trained in full beside the factors: those whose path ends in one of these names.
  std::set<std::string, std::less<>> modules_to_save;

  // Return true if factors start as parts of their weights, and if these parts are then subtracted from the base.
  [[nodiscard]] bool starts_from_weights() const { return start >= LoraStart::kPissa; }
  [[nodiscard]] bool changes_base() const { return start == LoraStart::kPissa || start == LoraStart::kOlora; }
  // Returns the options of a plain adapter of twice the rank on the unchanged base: [A; A_0] and [B, -B_0].
  [[nodiscard]] LoraOptions beside_unchanged_base() const;

  [[nodiscard]] int64_t rank_of(std::string_view module) const;
  [[nodiscard]] double alpha_of(std::string_view module) const;
  // Returns the scale of the module's product B A.
  [[nodiscard]] double scale_of(std::string_view module) const;
};

// Returns the names by which PEFT would match a module's path: "a.b.c" gives "a.b.c", "b.c" and "c".
[[nodiscard]] std::vector<std::string_view> names_of_path(std::string_view path);

// Returns the layer that a module belongs to, 3 for "model.layers.3.mlp.up_proj", as PEFT's layers_to_transform counts;
// none outside of lists, or if `names` is not empty, outside of lists with these names.
[[nodiscard]] std::optional<int64_t> layer_of(std::string_view path, std::span<const std::string> names = {});

// Returns true if the linear module at `path` ("model.layers.0.self_attn.q_proj") gets an adapter.
[[nodiscard]] bool is_adapted(const LoraOptions& options, std::string_view path);

// Returns true if the tensor of a mixture at `path` ("model.layers.0.mlp.experts.down_proj") gets factors. As in PEFT,
// layers_to_transform has no say.
[[nodiscard]] bool is_adapted_tensor(const LoraOptions& options, std::string_view path);

// Returns true if the module of a weight ("model.norm.weight") is one of modules_to_save.
[[nodiscard]] bool is_saved_in_full(const LoraOptions& options, std::string_view weight);

// PEFT's prefix of the names of an adapter's tensors.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// Returns the name of a weight of the graph in an adapter's file: that of a factor, or "base_model.model.<weight>".
[[nodiscard]] std::string adapter_tensor_name(std::string_view weight);

// Returns "base_model.model.<path>.lora_A.weight"; `factor` is 'A' or 'B'.
[[nodiscard]] std::string lora_name(std::string_view path, char factor);

// Returns the name of a factor of the tensor of a mixture at `path`: that of its module, of which PEFT wraps one tensor
// after the other, so that gate_up_proj, or up_proj, stands inside down_proj:
// "...mlp.experts.base_layer.lora_A.weight".
[[nodiscard]] std::string tensor_factor_name(const LoraOptions& options, std::string_view path, char factor);

// Returns "base_model.model.<path>.lora_magnitude_vector".
[[nodiscard]] std::string magnitude_name(std::string_view path);

// Returns "start.<path>.lora_A.weight", the name of a factor's initial value in the table of parameters.
[[nodiscard]] std::string start_name(std::string_view path, char factor);

// Returns the name of the squared norms of a weight's rows in the table of parameters.
[[nodiscard]] std::string row_squares_name(std::string_view weight);

}  // namespace spillway

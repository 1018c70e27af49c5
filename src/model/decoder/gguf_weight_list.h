// Collects the tensors of a decoder's GGUF file, layer by layer: the names that llama.cpp gives them, and the weights
// of the model's files that they are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder/config.h"
#include "model/decoder/gguf_family.h"
#include "model/gguf/weights.h"

namespace spillway {

// `config` is borrowed and must outlive the list.
class GgufWeightList {
 public:
  explicit GgufWeightList(const DecoderConfig& config);

  // Adds the tensors of the next layer.
  void add_layer(const DecoderLayer& layer);
  // Adds those before all layers, and those behind them.
  void add_embedding();
  void add_head();
  // Moves all of them into the description.
  void move_into(GgufDescription& result);

 private:
  void add_attention(const Attention& attention);
  void add_heads(const Attention& attention);
  void add_keys(const Attention& attention);
  void add_latent_heads(const Attention& attention);
  void add_convolution(const ShortConvolution& convolution);
  void add_delta(const GatedDelta& delta);
  void add_delta_projections(const GatedDelta& delta);
  void add_projections_by_head(const GatedDelta& delta);
  void add_state_space(const GatedDelta& space);
  void add_scan(const SelectiveScan& scan);
  // `suffix`: of the shared expert's tensors.
  void add_feed_forward(const FeedForward& mlp, std::string_view suffix);
  // Adds the numbers of xIELU, which are metadata.
  void add_activation(const FeedForward& mlp);
  // Adds what gives the layers' own inputs, and what a layer does with its own.
  void add_layer_inputs();
  void add_layer_input(int64_t width);
  void add_mixture(const Mixture& mixture);
  void add_router(const Mixture& mixture, const std::string& module);
  void add_experts(const Mixture& mixture, const std::string& module);
  void add_stacked_experts(const Mixture& mixture, const std::string& module);
  void add_fused_experts(const Mixture& mixture, const std::string& module);
  void add_shared_expert(const Mixture& mixture, const std::string& module);

  // Returns a weight of the layer as it lies, by its name inside the layer.
  [[nodiscard]] GgufPart part(std::string_view name, std::vector<int64_t> shape) const;
  // Returns rows of a weight, in the order of the axes, whose strides are in rows.
  static GgufPart rows(GgufPart part, int64_t first, std::vector<GgufAxis> axes);
  // Returns the axes of what belongs to heads of values, `size` rows or columns each, in the order of the family.
  [[nodiscard]] std::vector<GgufAxis> value_axes(const GatedDelta& delta, int64_t size) const;
  // Returns a weight whose rows, from `first`, are those of heads of values.
  [[nodiscard]] GgufPart value_rows(GgufPart part, const GatedDelta& delta, int64_t size, int64_t first = 0) const;

  GgufWeight& add(std::string_view gguf, std::vector<int64_t> shape, std::vector<GgufPart> parts);
  GgufWeight& add(std::string_view gguf, std::string_view name, const std::vector<int64_t>& shape);
  // Adds nothing where there is no norm.
  void norm(std::string_view gguf, std::string_view module, int64_t width, float shift);
  void norm(std::string_view gguf, std::string_view module, int64_t width) { norm(gguf, module, width, norm_shift_); }
  // `turned_heads`: above 0, the rows of each of so many heads are interleaved where the family's are. `scales` are
  // multiplied into the weight where the family folds them.
  void linear(std::string_view gguf, std::string_view module, int64_t rows, int64_t columns, bool bias,
              int64_t turned_heads = 0, const std::vector<double>& scales = {});
  // Returns those of the factors that are not 1, if the family folds them.
  [[nodiscard]] std::vector<float> folded(const std::vector<double>& scales) const;
  [[nodiscard]] std::vector<GgufPart> interleaved(GgufPart part, int64_t heads) const;

  const DecoderConfig& config_;
  const GgufFamily& family_;
  float norm_shift_;
  bool is_interleaved_;
  int64_t layer_ = 0;
  std::string gguf_, name_;  // prefixes
  std::vector<GgufWeight> list_;
  std::vector<GgufNumbers> numbers_;
  std::vector<std::string> unread_;
};

}  // namespace spillway

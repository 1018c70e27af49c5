// The heads, the states and the experts of a decoder's layers, from the metadata of a GGUF file.
#include <algorithm>

#include "base/index.h"
#include "model/decoder/gguf_config_maker.h"

namespace spillway {

const std::vector<int64_t>* GgufConfigMaker::find_list(std::string_view name) const {
  const auto found = file_.metadata().find(key_of(name));
  return found == file_.metadata().end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
}

bool GgufConfigMaker::is_set(std::string_view name) const {
  const auto found = file_.metadata().find(key_of(name));
  if (found == file_.metadata().end()) return false;
  const auto* flag = std::get_if<bool>(&found->second);
  const auto* whole = std::get_if<int64_t>(&found->second);
  return (flag != nullptr && *flag) || (whole != nullptr && *whole != 0);
}

void GgufConfigMaker::add_heads() {
  const auto heads = config_["num_attention_heads"].get<int64_t>();
  if (file_.find<int64_t>(key_of("attention.kv_lora_rank")) != nullptr) return add_latent_heads();
  const int64_t share = std::max<int64_t>(config_["hidden_size"].get<int64_t>() / heads, 1);
  const bool is_llama = family_.rope.states_size && !architecture_.rope.is_partial;
  const int64_t missing = is_llama ? positive_or("rope.dimension_count", share) : share;
  head_dim_ = family_.heads_fill_rows ? share : positive_or("attention.key_length", missing);
  if (positive_or("attention.value_length", head_dim_) != head_dim_)
    refuse("attention.value_length", "to equal the key's", "another");
  const bool turns_whole = !architecture_.rope.is_partial && !family_.rope.never_turns;
  if (turns_whole && positive_or("rope.dimension_count", head_dim_) != head_dim_)
    refuse("rope.dimension_count", "to be the head size", "a part of it");
  if (!family_.heads_fill_rows) config_["head_dim"] = head_dim_;
  // A list has 0 for layers without attention.
  const std::vector<int64_t>* listed = find_list("attention.head_count_kv");
  const int64_t kv_heads = listed == nullptr || listed->empty()
                               ? positive_or("attention.head_count_kv", heads)
                               : checked(key_of("attention.head_count_kv"), *std::ranges::max_element(*listed));
  config_["num_key_value_heads"] = kv_heads;
  if (family_.states_local_heads) add_local_heads();
}

void GgufConfigMaker::add_latent_heads() {
  const int64_t rank = positive("attention.kv_lora_rank"), rotated = positive("rope.dimension_count");
  const int64_t head = positive_or("attention.key_length_mla", 0);
  if (head <= rotated) refuse("attention.key_length_mla", "beyond rope.dimension_count", fmt::format("{}", head));
  head_dim_ = rotated;
  config_["num_key_value_heads"] = config_["num_attention_heads"];
  config_["q_lora_rank"] = nullptr;
  if (file_.find<int64_t>(key_of("attention.q_lora_rank")) != nullptr)
    config_["q_lora_rank"] = positive("attention.q_lora_rank");
  config_["kv_lora_rank"] = rank;
  config_["qk_nope_head_dim"] = head - rotated;
  config_["qk_rope_head_dim"] = rotated;
  config_["v_head_dim"] = positive("attention.value_length_mla");
}

// Metadata have the heads of layers without a window under the names of all, and a list of the numbers of keys.
void GgufConfigMaker::add_local_heads() {
  const auto layers = config_["num_hidden_layers"].get<int64_t>();
  const auto windows = file_.get<std::vector<int64_t>>(key_of("attention.sliding_window_pattern"));
  const std::vector<int64_t>* kv_heads = find_list("attention.head_count_kv");
  config_["global_head_dim"] = head_dim_;
  config_["head_dim"] = positive("attention.key_length_swa");
  const int64_t own = layers - positive_or_none("attention.shared_kv_layers");  // the others take keys of these
  bool values_are_keys = false;
  for (int64_t layer = 0; layer < std::min(own, std::ssize(windows)); ++layer) {
    const bool has_window = nth(windows, layer) != 0;
    if (kv_heads != nullptr && layer < std::ssize(*kv_heads))
      config_[has_window ? "num_key_value_heads" : "num_global_key_value_heads"] = nth(*kv_heads, layer);
    if (!has_window) values_are_keys = file_.find_tensor(fmt::format("blk.{}.attn_v.weight", layer)) == nullptr;
  }
  config_["attention_k_eq_v"] = values_are_keys;
  if (!values_are_keys && config_.contains("num_global_key_value_heads"))
    refuse("attention.head_count_kv", "the same for all layers where values are no keys", "another");
}

// Layers with a state are those without keys, those that the file lists, or all but every so many.
void GgufConfigMaker::add_states() {
  if (family_.space.is_there) return add_spaces();
  if (family_.scan.is_there) return add_scans();
  if (family_.state_type.empty()) return;
  constexpr int64_t kUsualInterval = 4;
  const std::vector<int64_t>* recurrent = find_list("attention.recurrent_layers");
  const std::vector<int64_t>* kv_heads = find_list("attention.head_count_kv");
  const int64_t interval = positive_or("full_attention_interval", kUsualInterval);
  const bool has_rule = file_.metadata().contains(key_of("ssm.conv_kernel"));
  Json types = Json::array();
  for (int64_t layer = 0; layer < config_["num_hidden_layers"].get<int64_t>(); ++layer) {
    const auto is_listed = [&](const std::vector<int64_t>* list) {
      return list != nullptr && layer < std::ssize(*list);
    };
    bool has_state = has_rule && (layer + 1) % interval != 0;
    if (is_listed(recurrent)) has_state = nth(*recurrent, layer) != 0;
    if (!has_rule && is_listed(kv_heads)) has_state = nth(*kv_heads, layer) == 0;
    types.push_back(has_state ? std::string(family_.state_type) : "full_attention");
  }
  config_["layer_types"] = std::move(types);
  if (!has_rule) {
    config_["conv_L_cache"] = positive("shortconv.l_cache");
    config_["conv_bias"] = false;
    if (!architecture_.inner_key.empty()) config_["block_auto_adjust_ff_dim"] = false;  // the width is the real one
    return;
  }
  const int64_t heads = positive("ssm.time_step_rank");
  config_["linear_conv_kernel_dim"] = positive("ssm.conv_kernel");
  config_["linear_num_key_heads"] = positive("ssm.group_count");
  config_["linear_num_value_heads"] = heads;
  config_["linear_key_head_dim"] = positive("ssm.state_size");
  config_["linear_value_head_dim"] = positive("ssm.inner_size") / heads;
}

void GgufConfigMaker::add_spaces() {
  const GgufSpace& space = family_.space;
  const int64_t heads = positive("ssm.time_step_rank"), width = positive("ssm.inner_size");
  const auto hidden = config_["hidden_size"].get<int64_t>();
  if (width % heads != 0) refuse("ssm.inner_size", fmt::format("a multiple of {}", heads), fmt::format("{}", width));
  if (space.expand > 0 && width != space.expand * hidden)
    refuse("ssm.inner_size", fmt::format("{} x embedding_length", space.expand), fmt::format("{}", width));
  config_[std::string(space.heads)] = heads;
  config_[std::string(space.groups)] = positive("ssm.group_count");
  config_[std::string(space.state)] = positive("ssm.state_size");
  config_[std::string(space.head_dim)] = width / heads;
  config_[std::string(space.taps)] = positive("ssm.conv_kernel");
  if (space.expand > 0) config_["mamba_expand"] = space.expand;
  if (!space.width.empty()) config_[std::string(space.width)] = width;
  if (!space.norm_key.empty()) {
    config_[std::string(space.norm_key)] = file_.find_tensor("blk.0.ssm_norm.weight") != nullptr;
    config_["mamba_norm_before_gate"] = false;
  }
  if (!family_.rope.turning_key.empty()) {
    const bool turns = !file_.metadata().contains(key_of("rope.scaling.finetuned")) || is_set("rope.scaling.finetuned");
    config_[std::string(family_.rope.turning_key)] = turns ? "rope" : "nope";
  }
  if (family_.rope.always_turns && !is_set("rope.scaling.finetuned"))
    refuse("rope.scaling.finetuned", "to be true", "another value");
  if (!space.layers_with_attention.empty()) {
    Json list = Json::array();
    for (int64_t layer = 0; layer < config_["num_hidden_layers"].get<int64_t>(); ++layer)
      if (has_number("attention.head_count_kv", layer)) list.push_back(layer);
    config_[std::string(space.layers_with_attention)] = std::move(list);
  }
  if (space.layers.empty()) return;
  Json kinds = Json::array();
  for (int64_t layer = 0; layer < config_["num_hidden_layers"].get<int64_t>(); ++layer)
    kinds.push_back(std::string(kind_of_layer(layer)));
  config_[std::string(space.layers)] = std::move(kinds);
}

void GgufConfigMaker::add_scans() {
  const GgufScan& scan = family_.scan;
  const int64_t width = positive("ssm.inner_size"), hidden = config_["hidden_size"].get<int64_t>();
  if (width != scan.expand * hidden)
    refuse("ssm.inner_size", fmt::format("{} x embedding_length", scan.expand), fmt::format("{}", width));
  config_["mamba_expand"] = scan.expand;
  config_[std::string(scan.state)] = positive("ssm.state_size");
  config_[std::string(scan.step_rank)] = positive("ssm.time_step_rank");
  config_[std::string(scan.taps)] = positive("ssm.conv_kernel");
  config_["mamba_conv_bias"] = true;
  config_["mamba_proj_bias"] = false;
  add_every(scan.attention, "keys", [&](int64_t layer) { return has_number("attention.head_count_kv", layer); });
}

void GgufConfigMaker::add_every(const GgufEvery& every, std::string_view what,
                                const std::function<bool(int64_t layer)>& has) {
  const auto layers = config_["num_hidden_layers"].get<int64_t>();
  const auto next = [&](int64_t layer) {
    while (layer < layers && !has(layer)) ++layer;
    return layer;
  };
  const int64_t first = next(0), second = next(first + 1);
  const int64_t period = second < layers ? second - first : layers + 1;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (has(layer) != (layer % period == first))
      refuse(fmt::format("layers with {}", what), fmt::format("{} apart, from layer {} on", period, first),
             fmt::format("{} in layer {}", has(layer) ? "some" : "none", layer));
  }
  config_[std::string(every.period)] = period;
  config_[std::string(every.offset)] = first;
}

bool GgufConfigMaker::has_number(std::string_view key, int64_t layer) const {
  const std::vector<int64_t>* list = find_list(key);
  return list == nullptr ? positive_or_none(key) > 0 : layer < std::ssize(*list) && nth(*list, layer) != 0;
}

// A layer without keys has a state, unless the file says how wide its feed-forward is.
std::string_view GgufConfigMaker::kind_of_layer(int64_t layer) const {
  if (has_number("attention.head_count_kv", layer)) return family_.space.attention_kind;
  if (!family_.lists_widths || !has_number("feed_forward_length", layer)) return family_.space.space_kind;
  return name_ == family_.name_with_experts ? "moe" : "mlp";
}

void GgufConfigMaker::add_mixture() {
  const GgufMixture& mixture = family_.mixture;
  if (!mixture.is_there) return;
  if (!mixture.flag.empty()) {
    const int64_t* experts = file_.find<int64_t>(key_of("expert_count"));
    const bool has_experts = experts != nullptr && *experts != 0;
    config_[std::string(mixture.flag)] = has_experts;
    if (!has_experts) return;
  }
  if (!mixture.layers.period.empty()) {
    add_every(mixture.layers, "experts", [&](int64_t layer) {
      return file_.find_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer)) != nullptr;
    });
  }
  if (mixture.shares_feed_forward) config_["shared_intermediate_size"] = config_["intermediate_size"];
  if (mixture.may_be_absent && positive_or_none("expert_count") == 0) {
    config_[std::string(mixture.experts)] = 0;
    return;
  }
  config_[std::string(mixture.experts)] = positive("expert_count");
  config_[std::string(mixture.used)] = positive("expert_used_count");
  if (mixture.states_inner_width) config_[std::string(mixture.inner)] = positive("expert_feed_forward_length");
  if (mixture.shared == GgufShared::kCount) {
    config_[std::string(mixture.shared_key)] = file_.get<int64_t>(key_of("expert_shared_count"));
  } else if (file_.find<int64_t>(key_of("expert_shared_feed_forward_length")) != nullptr) {
    config_[std::string(mixture.shared_width_key)] = positive("expert_shared_feed_forward_length");
  }
  if (mixture.states_one_shared) config_[std::string(mixture.shared_key)] = positive_or("expert_shared_count", 1);
  if (file_.metadata().contains(key_of("moe_latent_size"))) config_["moe_latent_size"] = positive("moe_latent_size");
  if (!mixture.dense.empty()) {
    const int64_t* dense = file_.find<int64_t>(key_of("leading_dense_block_count"));
    config_[std::string(mixture.dense)] = dense == nullptr ? 0 : *dense;
  }
  add_routing();
}

void GgufConfigMaker::add_routing() {
  const GgufMixture& mixture = family_.mixture;
  if (!mixture.norm_key.empty())
    config_[std::string(mixture.norm_key)] = mixture.states_scale ? is_set("expert_weights_norm") : mixture.normalises;
  if (mixture.states_groups) {
    config_["n_group"] = positive_or("expert_group_count", 1);
    config_["topk_group"] = positive_or("expert_group_used_count", 1);
  }
  if (!mixture.states_scale) return;
  const double scale = real_or("expert_weights_scale", 1);
  config_[std::string(mixture.scale_key)] = scale == 0 ? 1 : scale;  // llama.cpp takes 0 for none
}

}  // namespace spillway

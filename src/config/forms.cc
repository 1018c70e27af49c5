#include "config/forms.h"

#include <algorithm>
#include <span>

namespace spillway::config {
namespace {

constexpr std::string_view kFlags[] = {"average_tokens_across_devices",
                                       "batch_eval_metrics",
                                       "bf16_full_eval",
                                       "chunked_cross_entropy",
                                       "comet_online",
                                       "dataloader_in_order",
                                       "dataloader_persistent_workers",
                                       "dataloader_pin_memory",
                                       "dataset_keep_in_memory",
                                       "ddp",
                                       "ddp_broadcast_buffers",
                                       "ddp_find_unused_parameters",
                                       "ddp_static_graph",
                                       "disable_tqdm",
                                       "do_eval",
                                       "do_predict",
                                       "do_train",
                                       "dpo_padding_free",
                                       "dpo_use_liger_kernel",
                                       "embeddings_skip_upcast",
                                       "enable_jit_checkpoint",
                                       "eval_do_concat_batches",
                                       "eval_use_gather_object",
                                       "experimental_skip_move_to_device",
                                       "fa_varlen_kwargs_in_collator",
                                       "flash_attn_cross_entropy",
                                       "flash_attn_d512",
                                       "flash_attn_fuse_mlp",
                                       "flash_attn_rms_norm",
                                       "flash_optimum",
                                       "fp16_full_eval",
                                       "freeze_mm_modules",
                                       "full_determinism",
                                       "fused_attn_kernel",
                                       "gemma4_hybrid_attn_impl",
                                       "generation_do_sample",
                                       "gradio_share",
                                       "hf_mlflow_log_artifacts",
                                       "hf_use_auth_token",
                                       "hub_always_push",
                                       "hub_private_repo",
                                       "ignore_bias_buffers",
                                       "ignore_data_skip",
                                       "include_tkps",
                                       "include_tokens_per_second",
                                       "is_falcon_derived_model",
                                       "is_llama_derived_model",
                                       "is_mistral_derived_model",
                                       "is_preprocess",
                                       "is_qwen_derived_model",
                                       "llama4_linearized_experts",
                                       "log_on_each_node",
                                       "logging_first_step",
                                       "logging_nan_inf_filter",
                                       "lora_embedding_kernel",
                                       "lora_fp32_gradients",
                                       "lora_mlp_kernel",
                                       "lora_o_kernel",
                                       "lora_on_cpu",
                                       "lora_qkv_kernel",
                                       "low_cpu_mem_usage",
                                       "mean_resizing_embeddings",
                                       "merge_lora",
                                       "multipack_real_batches",
                                       "pad_to_sequence_len",
                                       "prediction_loss_only",
                                       "preprocess_iterable",
                                       "qgalore_proj_quant",
                                       "qlora_sharded_model_loading",
                                       "relora_cpu_offload",
                                       "remove_unused_columns",
                                       "restore_callback_states_from_checkpoint",
                                       "save_on_each_node",
                                       "save_safetensors",
                                       "sdpa_varlen",
                                       "skip_memory_metrics",
                                       "strict",
                                       "tiled_mlp",
                                       "tiled_mlp_use_original_mlp",
                                       "tokenizer_legacy",
                                       "tokenizer_save_jinja_files",
                                       "tokenizer_use_fast",
                                       "tokenizer_use_mistral_common",
                                       "torch_compile_regional",
                                       "trust_remote_code",
                                       "use_bnb_nested_quant",
                                       "use_cache",
                                       "use_comet",
                                       "use_cpu",
                                       "use_kernels",
                                       "use_liger_kernel",
                                       "use_mlflow",
                                       "use_otel_metrics",
                                       "use_ray",
                                       "use_trackio",
                                       "use_wandb"};

constexpr std::string_view kIntegers[] = {"chunked_cross_entropy_num_chunks",
                                          "dataloader_num_workers",
                                          "dataloader_prefetch_factor",
                                          "ddp_bucket_cap_mb",
                                          "ddp_timeout",
                                          "dion_rank_multiple_of",
                                          "eaft_k",
                                          "eval_accumulation_steps",
                                          "eval_max_new_tokens",
                                          "eval_table_size",
                                          "gc_collect_steps",
                                          "gc_steps",
                                          "generation_max_new_tokens",
                                          "generation_top_k",
                                          "gradio_max_new_tokens",
                                          "gradio_server_port",
                                          "heads_k_stride",
                                          "jagged_restart_anneal_steps",
                                          "jagged_restart_steps",
                                          "jagged_restart_warmup_steps",
                                          "label_balance_window_optim_steps",
                                          "local_rank",
                                          "mixlora_expert_lora_alpha",
                                          "mixlora_expert_lora_r",
                                          "mixlora_num_experts",
                                          "mixlora_top_k",
                                          "num_dataset_shards_to_save",
                                          "num_generation_samples",
                                          "otel_metrics_port",
                                          "pose_max_context_len",
                                          "pose_num_chunks",
                                          "profiler_steps",
                                          "profiler_steps_start",
                                          "qgalore_gamma_proj",
                                          "qgalore_proj_bits",
                                          "qgalore_proj_group_size",
                                          "qgalore_queue_size",
                                          "qgalore_rank",
                                          "qgalore_update_proj_gap",
                                          "ray_num_workers",
                                          "sync_profiler_start_step",
                                          "sync_profiler_steps",
                                          "tiled_mlp_num_shards",
                                          "sample_packing_group_size",
                                          "torch_empty_cache_steps",
                                          "total_num_tokens",
                                          "total_supervised_tokens",
                                          "world_size"};

constexpr std::string_view kNumbers[] = {"dion_lr",
                                         "dion_momentum",
                                         "dion_rank_fraction",
                                         "eaft_alpha",
                                         "generation_prompt_ratio",
                                         "generation_temperature",
                                         "generation_top_p",
                                         "gradio_temperature",
                                         "mixlora_expert_lora_dropout",
                                         "mixlora_jitter_noise",
                                         "mixlora_router_aux_loss_coef",
                                         "mixlora_router_init_range",
                                         "qgalore_cos_threshold",
                                         "qgalore_scale",
                                         "relora_prune_ratio",
                                         "sample_packing_eff_est",
                                         "scaling_softmax_bias",
                                         "scaling_softmax_factor"};

constexpr std::string_view kTexts[] = {"axolotl_config_path",
                                       "bench_dataset",
                                       "bench_split",
                                       "bnb_4bit_quant_storage",
                                       "bnb_4bit_quant_type",
                                       "cls_model_config",
                                       "comet_api_key",
                                       "comet_experiment_key",
                                       "comet_mode",
                                       "comet_project_name",
                                       "comet_workspace",
                                       "dataloader_multiprocessing_context",
                                       "ddp_backend",
                                       "default_system_message",
                                       "experts_implementation",
                                       "gradio_server_name",
                                       "gradio_title",
                                       "hub_revision",
                                       "hub_strategy",
                                       "hub_token",
                                       "include_num_input_tokens_seen",
                                       "length_column_name",
                                       "lisa_layers_attribute",
                                       "log_level",
                                       "log_level_replica",
                                       "logging_strategy",
                                       "lora_task_type",
                                       "mlflow_experiment_name",
                                       "mlflow_run_name",
                                       "mlflow_tracking_uri",
                                       "model_type",
                                       "otel_metrics_host",
                                       "project",
                                       "qgalore_proj_type",
                                       "ray_run_name",
                                       "run_name",
                                       "sample_packing_mp_start_method",
                                       "tokenizer_type",
                                       "torch_compile_backend",
                                       "torchdistx_path",
                                       "trackio_bucket_id",
                                       "trackio_project_name",
                                       "trackio_run_name",
                                       "trackio_space_id",
                                       "trackio_static_space_id",
                                       "type_of_model",
                                       "wandb_entity",
                                       "wandb_log_model",
                                       "wandb_mode",
                                       "wandb_name",
                                       "wandb_project",
                                       "wandb_run_id",
                                       "wandb_watch"};

constexpr std::string_view kTextsOrLists[] = {"debug"};

constexpr std::string_view kLists[] = {"include_for_metrics", "label_names"};
// TRL takes a mapping as JSON text, too.
constexpr std::string_view kMappings[] = {"bnb_config_kwargs",
                                          "comet_experiment_config",
                                          "flex_attn_compile_kwargs",
                                          "liger_kernel_config",
                                          "model_kwargs",
                                          "model_quantization_config_kwargs",
                                          "overrides_of_model_kwargs",
                                          "resources_per_worker",
                                          "torch_compile_options",
                                          "accelerator_config",
                                          "activation_checkpointing_kwargs",
                                          "gradient_checkpointing_kwargs"};

bool holds(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_mapping(const YamlNode& node, const KeyPlace& place) {
  if (node.kind == YamlNode::Kind::kMap || (node.kind == YamlNode::Kind::kScalar && node.text.starts_with('{'))) return;
  throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key", node.shown());
}

}  // namespace

void check_form(std::string_view key, const YamlNode& node, const KeyPlace& place) {
  bool flag = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  const bool is_list = node.kind == YamlNode::Kind::kList;
  if (holds(kFlags, key)) {
    read_value(node, place, {}, flag);
  } else if (holds(kIntegers, key)) {
    if (!boolean_of(node)) read_value(node, place, {}, integer);
  } else if (holds(kNumbers, key)) {
    if (!boolean_of(node)) read_value(node, place, {}, number);
  } else if (holds(kTexts, key) || (holds(kTextsOrLists, key) && !is_list)) {
    read_value(node, place, {}, text);
  } else if (holds(kLists, key) && !is_list) {
    throw input_error(place.text(), "expected a list, got {}; write `- value` lines or [a, b]", node.shown());
  } else if (holds(kMappings, key)) {
    check_mapping(node, place);
  }
}

}  // namespace spillway::config

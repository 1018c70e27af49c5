#include "config/deepspeed_keys.h"

namespace spillway::config {
namespace {

using enum ForeignKey::Use;

constexpr ForeignWord kDevices[] = {{"none", "none"}, {"cpu", "host"}, {"nvme", "disk"}};
constexpr ForeignWord kDeepspeedOptimizers[] = {{"AdamW", "adamw_torch"}, {"Adam", "adamw_torch"}, {"SGD", "sgd"}};
constexpr ForeignWord kDeepspeedSchedulers[] = {
    {"WarmupLR", "constant_with_warmup"}, {"WarmupDecayLR", "linear"}, {"WarmupCosineLR", "cosine"}};
constexpr ForeignWord kLinear[] = {{"linear", ""}};
constexpr ForeignWord kTrue[] = {{"true", ""}};
constexpr ForeignWord kCheckpointsToHost[] = {{"true", "hidden_states"}, {"false", ""}};

constexpr std::string_view kInexact = "it changes the result of training and is not there";
constexpr std::string_view kToCome = "not yet supported";

constexpr ForeignKey kKeys[] = {
    // Batches and numbers
    {"train_micro_batch_size_per_gpu", kBecomes, "micro_batch_size"},
    {"gradient_accumulation_steps", kBecomes, "gradient_accumulation_steps"},
    {"train_batch_size", kSpecial, "batch_size"},
    {"gradient_clipping", kBecomes, "max_grad_norm"},
    {"bf16.enabled", kBecomes, "bf16"},
    {"bfloat16.enabled", kBecomes, "bf16"},
    {"bf16.bf16_master_weights_and_grads", kMustBeOff, "master weights are f32"},
    {"bf16.bf16_optimizer_states", kMustBeOff, "optimizer states are f32"},
    {"bf16.check_grad_overflow", kIgnored, ""},
    {"bf16.immediate_grad_update", kIgnored, ""},
    {"fp16", kNotYet, "f16 is not yet supported"},
    {"amp", kNotYet, "f16 is not yet supported"},
    {"torch_autocast", kMustBeOff, "types are those of bf16"},
    {"data_types", kIgnored, ""},
    {"communication_data_type", kIgnored, ""},
    {"seq_parallel_communication_data_type", kIgnored, ""},

    // Optimizer and schedule
    {"optimizer.type", kBecomes, "optimizer", kDeepspeedOptimizers},
    {"optimizer.params.lr", kBecomes, "learning_rate"},
    {"optimizer.params.betas.0", kBecomes, "adam_beta1"},
    {"optimizer.params.betas.1", kBecomes, "adam_beta2"},
    {"optimizer.params.eps", kBecomes, "adam_epsilon"},
    {"optimizer.params.weight_decay", kBecomes, "weight_decay"},
    {"optimizer.params.momentum", kSpecial, "optim_args"},
    {"optimizer.params.nesterov", kSpecial, "optim_args"},
    {"optimizer.params.dampening", kSpecial, "optim_args"},
    {"optimizer.params.amsgrad", kNotYet, kToCome},
    {"optimizer.params.adam_w_mode", kBecomes, "", kTrue},
    {"optimizer.params.bias_correction", kBecomes, "", kTrue},
    {"optimizer.params.torch_adam", kIgnored, ""},
    {"optimizer.params.fused", kIgnored, ""},
    {"optimizer.params.foreach", kIgnored, ""},
    {"optimizer.params.fp32_optimizer_states", kBecomes, "", kTrue},
    {"optimizer.legacy_fusion", kIgnored, ""},
    {"scheduler.type", kBecomes, "lr_scheduler", kDeepspeedSchedulers},
    {"scheduler.params.warmup_num_steps", kBecomes, "warmup_steps"},
    {"scheduler.params.warmup_max_lr", kBecomes, "learning_rate"},
    {"scheduler.params.warmup_min_lr", kRefused, "a warmup starts at 0"},
    {"scheduler.params.warmup_min_ratio", kRefused, "a warmup starts at 0"},
    {"scheduler.params.cos_min_ratio", kBecomes, "cosine_min_lr_ratio"},
    {"scheduler.params.warmup_type", kBecomes, "", kLinear},
    {"scheduler.params.total_num_steps", kIgnored, ""},
    {"scheduler.params.last_batch_iteration", kIgnored, ""},

    // Where things live
    {"zero_optimization.stage", kSpecial, ""},
    {"zero_optimization.offload_param.device", kBecomes, "parameter_offload", kDevices},
    {"zero_optimization.offload_param.nvme_path", kSpecial, "memory.disk_paths"},
    {"zero_optimization.offload_param.buffer_count", kIgnored, ""},
    {"zero_optimization.offload_param.buffer_size", kIgnored, ""},
    {"zero_optimization.offload_param.max_in_cpu", kIgnored, ""},
    {"zero_optimization.offload_param.pin_memory", kIgnored, ""},
    {"zero_optimization.offload_optimizer.device", kBecomes, "optimizer_offload", kDevices},
    {"zero_optimization.offload_optimizer.nvme_path", kSpecial, "memory.disk_paths"},
    {"zero_optimization.offload_optimizer.ratio", kSpecial, ""},
    {"zero_optimization.offload_optimizer.buffer_count", kIgnored, ""},
    {"zero_optimization.offload_optimizer.pin_memory", kIgnored, ""},
    {"zero_optimization.offload_optimizer.pipeline", kIgnored, ""},
    {"zero_optimization.offload_optimizer.pipeline_read", kIgnored, ""},
    {"zero_optimization.offload_optimizer.pipeline_write", kIgnored, ""},
    {"zero_optimization.offload_optimizer.fast_init", kIgnored, ""},
    {"zero_optimization.offload_optimizer.super_offload", kIgnored, ""},
    {"zero_optimization.offload_optimizer.cpuadam_cores_perc", kIgnored, ""},
    {"zero_optimization.cpu_offload", kBecomes, "optimizer_offload", kToHost},
    {"zero_optimization.cpu_offload_param", kBecomes, "parameter_offload", kToHost},
    {"zero_optimization.cpu_offload_params", kBecomes, "parameter_offload", kToHost},
    {"zero_optimization.cpu_offload_use_pin_memory", kIgnored, ""},
    {"zero_optimization.zenflow", kMustBeOff, kInexact},
    {"activation_checkpointing.cpu_checkpointing", kBecomes, "activation_offloading", kCheckpointsToHost},
    {"compile.offload_parameters", kBecomes, "parameter_offload", kToHost},
    {"compile.offload_opt_states", kBecomes, "optimizer_offload", kToHost},
    {"compile.offload_activation", kBecomes, "activation_offloading", kCheckpointsToHost},

    // Sharding, communication and buffers: one rank, and the plan's business
    {"zero_optimization.contiguous_gradients", kIgnored, ""},
    {"zero_optimization.reduce_scatter", kIgnored, ""},
    {"zero_optimization.reduce_bucket_size", kIgnored, ""},
    {"zero_optimization.use_multi_rank_bucket_allreduce", kIgnored, ""},
    {"zero_optimization.allgather_partitions", kIgnored, ""},
    {"zero_optimization.allgather_bucket_size", kIgnored, ""},
    {"zero_optimization.overlap_comm", kIgnored, ""},
    {"zero_optimization.load_from_fp32_weights", kIgnored, ""},
    {"zero_optimization.elastic_checkpoint", kIgnored, ""},
    {"zero_optimization.sub_group_size", kIgnored, ""},
    {"zero_optimization.round_robin_gradients", kIgnored, ""},
    {"zero_optimization.ignore_unused_parameters", kIgnored, ""},
    {"zero_optimization.legacy_stage1", kIgnored, ""},
    {"zero_optimization.stage3_prefetch_bucket_size", kIgnored, ""},
    {"zero_optimization.stage3_param_persistence_threshold", kIgnored, ""},
    {"zero_optimization.stage3_model_persistence_threshold", kIgnored, ""},
    {"zero_optimization.stage3_max_live_parameters", kIgnored, ""},
    {"zero_optimization.stage3_max_reuse_distance", kIgnored, ""},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", kIgnored, ""},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", kIgnored, ""},
    {"zero_optimization.stage3_module_granularity_threshold", kIgnored, ""},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", kIgnored, ""},
    {"zero_optimization.stage3_allgather_sequential", kIgnored, ""},
    // Older configs leave the prefix out.
    {"zero_optimization.prefetch_bucket_size", kIgnored, ""},
    {"zero_optimization.param_persistence_threshold", kIgnored, ""},
    {"zero_optimization.model_persistence_threshold", kIgnored, ""},
    {"zero_optimization.max_live_parameters", kIgnored, ""},
    {"zero_optimization.max_reuse_distance", kIgnored, ""},
    {"zero_optimization.gather_16bit_weights_on_model_save", kIgnored, ""},
    {"zero_optimization.zero_hpz_partition_size", kIgnored, ""},
    {"zero_optimization.zero_quantized_weights", kIgnored, ""},
    {"zero_optimization.zero_quantized_nontrainable_weights", kIgnored, ""},
    {"zero_optimization.zero_quantized_gradients", kIgnored, ""},
    {"zero_optimization.zeropp_loco_param", kIgnored, ""},
    {"zero_optimization.mics_shard_size", kIgnored, ""},
    {"zero_optimization.mics_hierarchical_params_gather", kIgnored, ""},
    {"zero_optimization.memory_efficient_linear", kIgnored, ""},
    {"zero_optimization.pipeline_loading_checkpoint", kIgnored, ""},
    {"zero_optimization.override_module_apply", kIgnored, ""},
    {"zero_optimization.log_trace_cache_warnings", kIgnored, ""},
    {"zero_optimization.enable_sanity_checks", kIgnored, ""},
    {"zero_optimization.save_muon_momentum_buffer_in_memory", kIgnored, ""},
    {"zero_optimization.leaf_module", kIgnored, ""},
    {"activation_checkpointing.partition_activations", kIgnored, ""},
    {"activation_checkpointing.contiguous_memory_optimization", kIgnored, ""},
    {"activation_checkpointing.number_checkpoints", kIgnored, ""},
    {"activation_checkpointing.synchronize_checkpoint_boundary", kIgnored, ""},
    {"activation_checkpointing.profile", kIgnored, ""},
    {"compile.deepcompile", kIgnored, ""},
    {"compile.disable", kIgnored, ""},
    {"compile.backend", kIgnored, ""},
    {"compile.offload_activation_pin_memory", kIgnored, ""},
    {"compile.double_buffer", kIgnored, ""},
    {"compile.free_activation", kIgnored, ""},
    {"compile.free_activation_threshold", kIgnored, ""},
    {"aio.block_size", kIgnored, ""},
    {"aio.queue_depth", kIgnored, ""},
    {"aio.intra_op_parallelism", kIgnored, ""},
    {"aio.thread_count", kIgnored, ""},
    {"aio.single_submit", kIgnored, ""},
    {"aio.overlap_events", kIgnored, ""},
    {"aio.use_gds", kIgnored, ""},
    {"prescale_gradients", kIgnored, ""},
    {"gradient_predivide_factor", kIgnored, ""},
    {"sparse_gradients", kIgnored, ""},
    {"disable_allgather", kIgnored, ""},
    {"zero_allow_untested_optimizer", kIgnored, ""},
    {"zero_force_ds_cpu_optimizer", kIgnored, ""},
    {"tensor_parallel", kIgnored, ""},
    {"sequence_parallel_size", kIgnored, ""},
    {"elasticity", kIgnored, ""},
    {"autotuning", kIgnored, ""},
    {"checkpoint", kIgnored, ""},
    {"load_universal_checkpoint", kIgnored, ""},
    {"hybrid_engine", kIgnored, ""},
    {"pipeline", kIgnored, ""},
    {"dataloader_drop_last", kIgnored, ""},
    {"use_data_before_expert_parallelism", kIgnored, ""},
    {"graph_harvesting", kIgnored, ""},
    {"nebula", kIgnored, ""},

    // What it prints and where
    {"steps_per_print", kIgnored, ""},
    {"wall_clock_breakdown", kIgnored, ""},
    {"dump_state", kIgnored, ""},
    {"memory_breakdown", kIgnored, ""},
    {"timers", kIgnored, ""},
    {"comms_logger", kIgnored, ""},
    {"flops_profiler", kIgnored, ""},
    {"monitor_config", kIgnored, ""},
    {"tensorboard", kIgnored, ""},
    {"wandb", kIgnored, ""},
    {"comet", kIgnored, ""},
    {"csv_monitor", kIgnored, ""},

    // Other trainings
    {"compression_training", kRefused, kInexact},
    {"curriculum_learning", kRefused, kInexact},
    {"data_efficiency", kRefused, kInexact},
    {"eigenvalue", kRefused, kInexact},
    {"progressive_layer_drop", kRefused, kInexact},
    {"quantize_training", kRefused, kInexact},
    {"sparse_attention", kRefused, kInexact},
};

}  // namespace

const ForeignTable& deepspeed_table() {
  static constexpr ForeignTable kTable{"DeepSpeed", "deepspeed", kKeys};
  return kTable;
}

}  // namespace spillway::config

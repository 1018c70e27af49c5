#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection optimisation_section() {
  KeySection section{"Optimisation", {}};
  section.keys = {
      key<&Config::num_epochs>("num_epochs", "passes over the rows").alias({"num_train_epochs"}).above(0).most(1e6),
      key<&Config::max_steps>("max_steps", "steps; wins over num_epochs, -1 leaves it to them").least(-1).most(1e12),
      key<&Config::optimizer>("optimizer", "the rule of the update").alias({"optim"}),
      key<&Config::sgd_momentum>("optim_args.momentum", "momentum of sgd").least(0).most(0.9999),
      key<&Config::learning_rate>("learning_rate", "the highest learning rate of the schedule")
          .least(0)
          .most(1e3)
          .required(),
      key<&Config::lr_scheduler>("lr_scheduler", "how the learning rate falls").alias({"lr_scheduler_type"}),
      key<&Config::warmup_steps>("warmup_steps",
                                 "steps over which the learning rate rises; below 1 a share of all steps")
          .least(0)
          .most(1e12),
      key<&Config::warmup_ratio>("warmup_ratio", "the same as a share of all steps").least(0).most(1),
      key<&Config::weight_decay>("weight_decay", "decay of all weights but norms and biases").least(0).most(1e3),
      key<&Config::adam_beta1>("adam_beta1", "decay of the mean of gradients").least(0).most(0.999999),
      key<&Config::adam_beta2>("adam_beta2", "decay of the mean of squared gradients").least(0).most(0.99999999),
      key<&Config::adam_epsilon>("adam_epsilon", "added to the root of the squared gradients")
          .alias({"adam_eps"})
          .above(0)
          .most(1),
      key<&Config::max_grad_norm>("max_grad_norm", "longer gradients are shortened to this norm; 0 for never").least(0),
      key<&Config::bf16>("bf16", "keep frozen weights, working copies and activations in bf16; false is f32 throughout")
          .alias({"bfloat16"}),
      key<&Config::dtype>("dtype", "TRL's: bfloat16 is bf16: true; masters are f32 in any case").alias({"torch_dtype"}),
      key<&Config::seed>("seed", "of everything random").least(0),
      key<&Config::gradient_checkpointing>("gradient_checkpointing",
                                           "compute activations again in the backward pass; auto: the plan decides; "
                                           "offload and offload_disk: with activation_offloading true and disk")
          .alias({"activation_checkpointing"}),
      key<&Config::selective_checkpointing>(
          "selective_checkpointing",
          "checkpointing that keeps the outputs of attention; a mapping says which ({save: [attention, matmul]}) and "
          "whether they leave device memory ({offload: true})"),
      not_yet("fp16", "f16").advise("bf16: true is the nearest"),
      not_yet("float16", "f16 weights").advise("bf16: true is the nearest"),
      not_yet("fp8", "8-bit products").advise("bf16: true is the nearest"),
      not_yet("float32", "another spelling of bf16: false,").advise("write bf16: false"),
      not_yet("data_seed", "a second seed").advise("seed also orders the rows"),
      not_yet("embedding_lr", "another learning rate for embeddings"),
      not_yet("embedding_lr_scale", "another learning rate for embeddings"),
      not_yet("lr_groups", "learning rates by module"),
      not_yet("optim_args.*", "options of an optimizer"),
      not_yet("lr_scheduler_kwargs", "options of a schedule"),
      not_yet("lr_quadratic_warmup", "a quadratic warmup"),
      not_yet("cosine_min_lr_ratio", "a least learning rate"),
      not_yet("cosine_constant_lr_ratio", "a constant tail of the schedule"),
      not_yet("lr_div_factor", "the one-cycle schedule"),
      not_yet("optim_target_modules", "projected optimizers"),
      not_yet("adam_epsilon2", "CAME"),
      not_yet("adam_beta3", "CAME"),
      not_yet("label_smoothing_factor", "smoothed targets").or_values({"0", "0.0"}),
      not_yet("neftune_noise_alpha", "noise on embeddings (NEFTune)").alias({"noisy_embedding_alpha"}),
      not_yet("loss_type", "another loss").or_values({"nll", "chunked_nll"}),
      not_yet("use_dft", "another loss"),
      not_yet("use_eaft", "another loss"),
      not_yet("loss_watchdog_threshold", "stopping at a high loss")
          .advise("remove the key, and the run goes to its end"),
      not_yet("loss_watchdog_patience", "stopping at a high loss").advise(kLeaveOut).or_values({"3"}),
      not_yet("early_stopping_patience", "stopping when evaluation gets no better")
          .advise("remove the key, and the run goes to its end"),
      not_yet("lisa_n_layers", "training sampled layers (LISA)"),
      not_yet("lisa_step_interval", "training sampled layers (LISA)"),
      not_yet("spectrum_top_fraction", "training chosen layers (Spectrum)"),
      refused("s2_attention", "axolotl dropped it").advise(kLeaveOut),
      refused("eta_min", "axolotl reads cosine_min_lr_ratio"),
  };
  add_refused(section, "axolotl dropped it for lora_mlp_kernel, lora_qkv_kernel and lora_o_kernel",
              {"unsloth_cross_entropy_loss", "unsloth_lora_mlp", "unsloth_lora_qkv", "unsloth_lora_o",
               "unsloth_rms_norm", "unsloth_rope"},
              kLeaveOut);
  add_ignored(section, "it belongs to a key that is off",
              {"lisa_layers_attribute", "eaft_*", "spectrum_model_name", "dion_*", "qgalore_*", "fp8_config.recipe",
               "fp8_enable_fsdp_float8_all_gather"});
  add_ignored(section, "it concerns kernels of other trainers; here the result is the same",
              {"tf32",
               "gradient_checkpointing_kwargs",
               "activation_checkpointing_kwargs",
               "flash_attention",
               "sdp_attention",
               "xformers_attention",
               "flex_attention",
               "flex_attn_compile_kwargs",
               "eager_attention",
               "attn_implementation",
               "flash_attn_*",
               "flash_optimum",
               "torch_compile*",
               "lora_mlp_kernel",
               "lora_qkv_kernel",
               "lora_o_kernel",
               "liger_*",
               "use_liger_kernel",
               "use_liger_loss",
               "cut_cross_entropy*",
               "chunked_cross_entropy*",
               "tiled_mlp*",
               "use_kernels",
               "use_cache",
               "use_eager_attention",
               "gc_steps",
               "gc_collect_steps",
               "sage_attention",
               "sdpa_varlen",
               "fused_attn_kernel",
               "fa_varlen_kwargs_in_collator",
               "large_head_attention",
               "lora_embedding_kernel",
               "autotune_*",
               "deepcompile",
               "sync_profiler_*",
               "torch_empty_cache_steps",
               "average_tokens_across_devices",
               "llama4_linearized_experts",
               "torchdistx_path",
               "experimental_*"});
  add_ignored(section, "the same config always gives the same weights, whatever the threads and the plan",
              {"full_determinism"});
  add_ignored(section, "evaluation has the types of training", {"bf16_full_eval", "fp16_full_eval"});
  return section;
}

KeySection output_section() {
  KeySection section{"Output, checkpoints and evaluation", {}};
  section.keys = {
      key<&Config::output_dir>("output_dir", "the folder of everything that a run leaves"),
      key<&Config::logging_steps>("logging_steps", "steps between lines on the terminal; metrics.jsonl has every step")
          .above(0),
      key<&Config::save_steps>("save_steps", "steps between checkpoints; below 1 a share of all steps").above(0),
      key<&Config::saves_per_epoch>("saves_per_epoch", "checkpoints per epoch").least(0),
      key<&Config::save_strategy>("save_strategy", "when checkpoints are written; left out: every epoch"),
      key<&Config::save_total_limit>("save_total_limit", "checkpoints that are kept").least(1),
      key<&Config::eval_steps>("eval_steps", "steps between evaluations; below 1 a share of all steps").above(0),
      key<&Config::evals_per_epoch>("evals_per_epoch", "evaluations per epoch").least(0),
      key<&Config::eval_strategy>("eval_strategy", "when to evaluate; left out: every epoch")
          .alias({"evaluation_strategy"}),
      key<&Config::auto_resume_from_checkpoints>(
          "auto_resume_from_checkpoints", "go on from the last checkpoint of the run that last began in output_dir"),
      key<&Config::resume_from_checkpoint>("resume_from_checkpoint", "go on from this checkpoint's folder"),
      key<&Config::metrics>("metrics", "write metrics.jsonl"),
      not_yet("load_best_model_at_end", "choosing the best checkpoint")
          .advise("remove the key, and the last weights are saved"),
      not_yet("save_only_model", "checkpoints that cannot be resumed")
          .advise("remove the key, and checkpoints can be resumed"),
      not_yet("eval_on_start", "an evaluation before the first step").advise(kLeaveOut),
      not_yet("eval_delay", "a later first evaluation").advise(kLeaveOut).or_values({"0"}),
      not_yet("eval_table_size", "samples during evaluation").advise(kLeaveOut),
      not_yet("generate_samples", "samples during training").advise(kLeaveOut),
      not_yet("do_causal_lm_eval", "metrics of generated text").advise(kLeaveOut),
      not_yet("do_bench_eval", "benchmarks during training").advise(kLeaveOut),
      not_yet("save_first_step", "a checkpoint after the first step").advise(kLeaveOut),
      refused("push_to_hub", "nothing leaves this machine").advise("remove the key, and upload output_dir yourself"),
      refused("hub_model_id", "nothing leaves this machine").advise("remove the key, and upload output_dir yourself"),
  };
  add_ignored(section, "weights are always saved as safetensors, whole",
              {"save_safetensors", "save_on_each_node", "enable_jit_checkpoint", "fsdp_final_state_dict_type"});
  add_ignored(section, "it belongs to a key that is off",
              {"metric_for_best_model", "greater_is_better", "eval_max_new_tokens", "eval_causal_lm_metrics", "bench_*",
               "num_generation_samples", "generation_*", "hub_*", "eval_accumulation_steps"});
  add_ignored(section, "no experiment tracker is built in: metrics.jsonl has every step, report.html shows the run",
              {"wandb_*", "use_wandb", "mlflow_*", "use_mlflow", "hf_mlflow_log_artifacts", "comet_*", "use_comet",
               "use_tensorboard", "report_to", "run_name", "project", "trackio_*", "use_trackio", "swanlab_*",
               "use_swanlab", "otel_*", "use_otel_metrics", "gradio_*"});
  add_ignored(section, "metrics.jsonl always has every step, with tokens and seconds",
              {"logging_strategy", "logging_first_step", "logging_dir", "logging_nan_inf_filter", "log_on_each_node",
               "include_num_input_tokens_seen", "include_tokens_per_second", "include_tkps"});
  add_ignored(section, "report.json and report.html always say where time and memory went",
              {"profiler_steps*", "skip_memory_metrics"});
  add_ignored(section, "a terminal gets a progress bar, a pipe gets lines; there are no levels",
              {"log_level*", "disable_tqdm", "debug"});
  add_ignored(section, "unknown keys are always errors", {"strict"});
  add_ignored(section, "an evaluation is the mean loss over the rows to evaluate on",
              {"do_train", "do_eval", "do_predict", "prediction_loss_only", "eval_do_concat_batches",
               "eval_use_gather_object", "include_for_metrics", "batch_eval_metrics"});
  add_ignored(section, "the config is the file of the command, and a run has no callbacks",
              {"restore_callback_states_from_checkpoint", "axolotl_config_path"});
  return section;
}

}  // namespace

std::vector<KeySection> training_sections() { return {optimisation_section(), output_section()}; }

}  // namespace spillway::config

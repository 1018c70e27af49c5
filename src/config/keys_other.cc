#include "config/keys.h"

namespace spillway::config {

std::vector<KeySection> other_sections() {
  KeySection section{"Plugins and other programs", {}};
  section.keys = {
      not_yet("plugins", "a plugin")
          .or_values({"axolotl.integrations.liger.LigerPlugin",
                      "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin",
                      "axolotl.integrations.kernels.KernelsPlugin", "axolotl.integrations.swanlab.SwanLabPlugin"}),
      not_yet("kd_trainer", "distillation"),
      not_yet("dynamic_checkpoint.enabled", "checkpoints on demand").advise(kLeaveOut),
      refused("trainer_cls", "a trainer in Python cannot run here"),
      refused("lm_eval_tasks", "lm_eval is a program of its own").advise("remove the key, and run it on output_dir"),
      refused("export", "what a run leaves is a Hugging Face folder").advise("remove the key, and convert output_dir"),
      refused("llmcompressor", "compression is a program of its own")
          .advise("remove the key, and run it on output_dir"),
  };
  add_refused(section, "only models that write from left to right are trained",
              {"diffusion", "diffusion_lm", "diffusion_decision", "balance_labels"});
  add_refused(section, "energy-based fine-tuning is not there", {"ebft"});
  add_refused(section, "it changes gradients in a way that is not there", {"grokfast_alpha", "dense_mixer"});
  add_refused(section, "it trains on another machine", {"hatchery", "coreweave", "nemo_gym_enabled"}, kLeaveOut);
  add_refused(section, "attention has no scaled softmax", {"scaling_softmax"});
  add_ignored(section, "it concerns kernels of other trainers; here the result is the same",
              {"experts_implementation", "expert_backend", "use_scattermoe", "use_sonicmoe", "use_dsv4_kernels",
               "use_glm_dsa_kernels", "dsv4_*", "gemma4_*", "nonexpert_quantization", "moe_bnb_fast",
               "moe_dequant_chunk_size", "moe_grouped_backend"});
  add_ignored(section, "it belongs to a key that is off",
              {"kd_*", "dynamic_checkpoint.check_interval", "dynamic_checkpoint.trigger_file_path", "lm_eval_*",
               "grokfast_lamb", "nemo_gym_*", "scaling_softmax_*", "label_balance_*"});
  add_ignored(section, "no version of axolotl that is in use reads it",
              {"base_model_ignore_patterns", "sample_packing_seq_len_multiplier"});
  return {section};
}

}  // namespace spillway::config

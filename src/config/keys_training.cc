#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection optimisation_section() {
  KeySection section{"Optimisation", {}};
  section.keys = {
      key<&Spelled::num_epochs>("num_epochs", "passes over the rows").alias({"num_train_epochs"}).above(0).most(1e6),
      key<&Spelled::max_steps>("max_steps", "steps; wins over num_epochs, -1 leaves it to them")
          .alias({"max_train_steps"})
          .least(-1)
          .most(1e12),
      key<&Spelled::optimizer>("optimizer", "the rule of the update").alias({"optim"}),
      key<&Spelled::optim_args>("optim_args", "options of the optimizer (docs/optimizers.md), also as \"a=1,b=2\""),
      key<&Spelled::learning_rate>("learning_rate", "the highest learning rate of the schedule")
          .least(0)
          .most(1e3)
          .required(),
      key<&Spelled::lr_scheduler>("lr_scheduler", "how the learning rate falls (docs/schedules.md)")
          .alias({"lr_scheduler_type"}),
      key<&Spelled::lr_scheduler_kwargs>("lr_scheduler_kwargs", "options of the schedule (docs/schedules.md)"),
      key<&Spelled::cosine_min_lr_ratio>("cosine_min_lr_ratio",
                                         "of cosine and rex: the least learning rate, as a share of learning_rate")
          .least(0)
          .most(1),
      key<&Spelled::cosine_constant_lr_ratio>(
          "cosine_constant_lr_ratio",
          "beside cosine_min_lr_ratio: the share of all steps after which the learning rate is the least")
          .least(0)
          .most(1),
      key<&Spelled::lr_quadratic_warmup>("lr_quadratic_warmup", "of cosine: the learning rate rises by a parabola"),
      key<&Spelled::warmup_steps>("warmup_steps",
                                  "steps over which the learning rate rises; below 1 a share of all steps; left out: "
                                  "warmup_ratio, else 3 % of all steps and at most 100, none in TRL's and FastVideo's "
                                  "configs")
          .alias({"lr_warmup_steps"})
          .least(0)
          .most(1e12),
      key<&Spelled::warmup_ratio>("warmup_ratio", "the same as a share of all steps, rounded down, in TRL's configs up")
          .least(0)
          .most(1),
      key<&Spelled::weight_decay>("weight_decay", "decay of all weights but norms and biases").least(0).most(1e3),
      key<&Spelled::adam_beta1>("adam_beta1", "decay of the mean of gradients; left out: 0.9").least(0).most(0.999999),
      key<&Spelled::adam_beta2>("adam_beta2", "decay of the mean of squared gradients; left out: 0.999")
          .least(0)
          .most(0.99999999),
      key<&Spelled::adam_beta3>("adam_beta3", "decay of CAME's confidence; left out: 0.9999").least(0).most(0.99999999),
      key<&Spelled::adam_epsilon>("adam_epsilon",
                                  "added to the root of the squared gradients; left out: 1e-8, and "
                                  "CAME's 1e-30")
          .alias({"adam_eps"})
          .above(0)
          .most(1),
      key<&Spelled::adam_epsilon2>("adam_epsilon2", "added to CAME's confidence; left out: 1e-16").above(0).most(1),
      key<&Spelled::max_grad_norm>("max_grad_norm", "longer gradients are shortened to this norm; 0 for never")
          .least(0),
      key<&Spelled::embedding_lr>("embedding_lr",
                                  "the learning rate of embeddings, heads and what an adapter trains in full, none of "
                                  "which decays beside it; left out: learning_rate")
          .above(0)
          .most(1e3),
      key<&Spelled::embedding_lr_scale>("embedding_lr_scale",
                                        "the same as so many times learning_rate; wins over embedding_lr")
          .above(0)
          .most(1e6),
      key<&Spelled::lr_groups>("lr_groups",
                               "learning rates of the weights that have one of some modules in their names: "
                               "[{name: o, modules: [self_attn.o_proj.weight], lr: 1e-6}]"),
      key<&Spelled::use_dft>("use_dft", "the loss of a token is weighed by its probability, as dpo_loss_type: dft")
          .alias({"use_dynamic_finetuning"}),
      key<&Spelled::label_smoothing_factor>(
          "label_smoothing_factor",
          "the share of a token's target that all tokens of the vocabulary have, in training and evaluation")
          .least(0)
          .most(1),
      key<&Spelled::bf16>(
          "bf16",
          "keep frozen weights, working copies and activations in bf16; full: trained weights and their "
          "moments, too, without f32 masters; false is f32 throughout")
          .alias({"bfloat16"}),
      key<&Spelled::fp16>(
          "fp16", "f16 arithmetic is not computed: bf16 is, and a model that is trained whole is written in f16")
          .alias({"float16"}),
      key<&Spelled::float32>("float32", "the same as bf16: false"),
      key<&Spelled::dtype>("dtype",
                           "TRL's: what a model that is trained whole is written in; auto: what its base has; float16 "
                           "and bfloat16 are computed in bf16, and masters are f32 where bf16 is not full")
          .alias({"torch_dtype", "model_init_kwargs.dtype", "model_init_kwargs.torch_dtype", "model_kwargs.dtype",
                  "model_kwargs.torch_dtype", "overrides_of_model_kwargs.dtype",
                  "overrides_of_model_kwargs.torch_dtype"}),
      key<&Spelled::neftune_noise_alpha>(
          "neftune_noise_alpha",
          "NEFTune: noise on the embeddings of a sequence of L tokens, at most this over the root of L times the "
          "model's width")
          .alias({"noisy_embedding_alpha"})
          .least(0)
          .most(1e6),
      key<&Spelled::seed>("seed", "of everything random").least(0),
      key<&Spelled::gradient_checkpointing>("gradient_checkpointing",
                                            "compute activations again in the backward pass; auto: the plan decides; "
                                            "offload and offload_disk: with activation_offloading true and disk")
          .alias({"activation_checkpointing"}),
      key<&Spelled::selective_checkpointing>(
          "selective_checkpointing",
          "checkpointing that keeps the outputs of attention; a mapping says which ({save: [attention, matmul]}) and "
          "whether they leave device memory ({offload: true})"),
  };
  return section;
}

KeySection output_section() {
  KeySection section{"Output, checkpoints and evaluation", {}};
  section.keys = {
      key<&Spelled::output_dir>("output_dir", "the folder of everything that a run leaves").path(),
      key<&Spelled::logging_steps>(
          "logging_steps",
          "steps between lines of a log, whose loss is the mean since the last line; below 1 a share of all steps; "
          "metrics.jsonl has every step")
          .above(0),
      key<&Spelled::save_steps>("save_steps", "steps between checkpoints; below 1 a share of all steps")
          .alias({"training_state_checkpointing_steps"})
          .above(0),
      key<&Spelled::saves_per_epoch>("saves_per_epoch", "checkpoints per epoch").least(0),
      key<&Spelled::save_strategy>("save_strategy",
                                   "when checkpoints are written, steps and epoch at the last step, too; best: after "
                                   "an evaluation that is the best so far; left out: every epoch"),
      key<&Spelled::save_total_limit>("save_total_limit",
                                      "checkpoints that are kept; left out: all; "
                                      "that of the best evaluation stays in any case, where the keys below ask for it")
          .alias({"checkpoints_total_limit"})
          .least(1),
      key<&Spelled::save_first_step>("save_first_step", "write a checkpoint after the first step, too"),
      key<&Spelled::save_only_model>("save_only_model",
                                     "checkpoints are models alone, from which no run goes on; that of an interrupt is "
                                     "whole"),
      key<&Spelled::eval_steps>("eval_steps", "steps between evaluations; below 1 a share of all steps").above(0),
      key<&Spelled::evals_per_epoch>("evals_per_epoch", "evaluations per epoch").least(0),
      key<&Spelled::eval_on_start>("eval_on_start", "evaluate before the first step, too"),
      key<&Spelled::eval_delay>("eval_delay",
                                "no evaluation before so many steps, or epochs where evaluations are counted by them")
          .least(0)
          .most(1e12),
      key<&Spelled::eval_strategy>("eval_strategy", "when to evaluate; left out: every epoch")
          .alias({"evaluation_strategy"}),
      key<&Spelled::load_best_model_at_end>("load_best_model_at_end",
                                            "end with the weights of the checkpoint whose evaluation was the best"),
      key<&Spelled::metric_for_best_model>("metric_for_best_model",
                                           "which number of an evaluation says so, `eval_` left out or not; left out: "
                                           "loss"),
      key<&Spelled::greater_is_better>("greater_is_better",
                                       "whether a larger number is the better one; left out: unless the name ends in "
                                       "loss"),
      key<&Spelled::early_stopping_patience>("early_stopping_patience",
                                             "evaluations in a row without a better one after which the run ends, with "
                                             "the best weights unless load_best_model_at_end is false; 0 for never")
          .least(0),
      key<&Spelled::loss_watchdog_threshold>("loss_watchdog_threshold",
                                             "end the run where the loss of steps in a row is above this"),
      key<&Spelled::loss_watchdog_patience>("loss_watchdog_patience", "how many such steps; left out: 3").least(1),
      key<&Spelled::sample_every_steps>("sample_every_steps",
                                        "steps between answers to sample_prompts, which the end of a run always has")
          .least(1),
      key<&Spelled::sample_prompts>("sample_prompts",
                                    "what the model is asked while it is trained, as a user's message where there is a "
                                    "chat template; the answers are "
                                    "shown, and stand in the report"),
      key<&Spelled::sample_max_new_tokens>("sample_max_new_tokens", "tokens of such an answer at most")
          .least(1)
          .most(1 << 16),
      key<&Spelled::auto_resume_from_checkpoints>(
          "auto_resume_from_checkpoints", "go on from the last checkpoint of the run that last began in output_dir"),
      key<&Spelled::resume_from_checkpoint>(
          "resume_from_checkpoint", "go on from this checkpoint's folder; true, or latest: from the last one, as above")
          .path(),
      key<&Spelled::metrics>("metrics", "write metrics.jsonl"),
      key<&Spelled::use_tensorboard>("use_tensorboard", "write event files for TensorBoard into OUTPUT/runs, too"),
      key<&Spelled::report_to>("report_to", "TRL's: tensorboard is use_tensorboard; of others nothing is written"),
  };
  return section;
}

}  // namespace

std::vector<KeySection> training_sections() { return {optimisation_section(), output_section()}; }

}  // namespace spillway::config

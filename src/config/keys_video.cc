// Video transformers: FastVideo's keys.
#include "config/keys.h"

namespace spillway::config {
namespace {

using Video = SpelledVideo;

KeySection flow_section() {
  KeySection section{"Video", {}};
  section.keys = {
      key<&Spelled::video, &Video::component>(
          "component", "the folder of a pipeline that is trained: transformer_2 is Wan 2.2's low-noise expert"),
      key<&Spelled::video, &Video::weighting_scheme>("weighting_scheme", "how timesteps are drawn"),
      key<&Spelled::video, &Video::logit_mean>("logit_mean", "of weighting_scheme logit_normal"),
      key<&Spelled::video, &Video::logit_std>("logit_std", "likewise").above(0),
      key<&Spelled::video, &Video::mode_scale>("mode_scale", "of weighting_scheme mode"),
      key<&Spelled::video, &Video::flow_shift>("flow_shift", "the shift of the table of 1000 noise levels")
          .alias({"pipeline.flow_shift"})
          .above(0),
      key<&Spelled::video, &Video::min_timestep>("min_timestep", "the least timestep that is drawn")
          .least(0)
          .most(1000),
      key<&Spelled::video, &Video::max_timestep>("max_timestep", "the largest").least(0).most(1000),
      key<&Spelled::video, &Video::precondition_outputs>("precondition_outputs",
                                                         "the loss is on the clean latents that a prediction means"),
      key<&Spelled::video, &Video::training_cfg_rate>("training_cfg_rate",
                                                      "share of texts that become zeros, drawn anew in each epoch")
          .least(0)
          .most(1),
      key<&Spelled::video, &Video::text_len>("text_len", "rows of a text: zeros fill shorter ones up, and are seen")
          .least(1)
          .most(1 << 16),
      key<&Spelled::video, &Video::num_latent_t>("num_latent_t", "frames of latents that are kept; 0: all").least(0),
      key<&Spelled::video, &Video::normalize_latents>(
          "normalize_latents", "by mean and deviation of vae/config.json; auto: where that file is"),
      key<&Spelled::video, &Video::eval_timesteps>(
          "eval_timesteps", "each validation row is looked at once for each of these; noise is fixed by seed and row")
          .least(0)
          .most(1000),
      key<&Spelled::video, &Video::use_ema>("use_ema", "averaged weights are written beside the trained ones"),
      key<&Spelled::video, &Video::ema_decay>("ema_decay", "what stays of the average at a step").least(0).most(1),
      key<&Spelled::video, &Video::ema_start_step>("ema_start_step", "until after this step the average is the weights")
          .alias({"start_iter"})
          .least(0),
      key<&Spelled::video, &Video::log_samples>("log_samples",
                                                "a line in samples.jsonl for each sample that is trained on"),
      key<&Spelled::video, &Video::clip_shape>(
          "clip_shape", "channels, frames, rows and columns of latents, for `spillway plan` without rows")
          .least(1)
          .most(1 << 20),
  };
  return section;
}

KeySection fastvideo_section() {
  KeySection section{"FastVideo's words for other keys", {}};
  section.keys = {
      key<&Spelled::video, &Video::data_path>(
          "data_path", "folders of rows, with commas between them; FOLDER:3 is a folder three times")
          .path(),
      key<&Spelled::video, &Video::lora_training>("lora_training", "adapter: lora"),
      key<&Spelled::video, &Video::betas>("betas", "adam_beta1 and adam_beta2: \"0.9,0.999\""),
      key<&Spelled::video, &Video::enable_gradient_checkpointing_type>("enable_gradient_checkpointing_type",
                                                                       "full, block_skip: gradient_checkpointing"),
      key<&Spelled::video, &Video::mixed_precision>("mixed_precision",
                                                    "bf16: true, or false where it says no; fp16 is computed in bf16"),
      key<&Spelled::video, &Video::lr_num_cycles>("lr_num_cycles", "of lr_scheduler cosine_with_restarts: num_cycles")
          .least(0)
          .most(1e6),
      key<&Spelled::video, &Video::lr_power>("lr_power", "of lr_scheduler polynomial: power").least(0).most(1e6),
      key<&Spelled::video, &Video::min_lr_ratio>(
          "min_lr_ratio",
          "of lr_scheduler cosine_with_min_lr: the share of learning_rate at which the cosine is cut off; left out: "
          "0.5 in FastVideo's configs")
          .least(0)
          .most(1),
  };
  return section;
}

}  // namespace

std::vector<KeySection> video_sections() { return {flow_section(), fastvideo_section()}; }

}  // namespace spillway::config

#include "train/model_card.h"

#include <fmt/format.h>

#include "hub/lookup.h"

namespace spillway::train {

std::string model_card(const Job& job) {
  const config::Config& c = job.config;
  const std::string base = hub::name_elsewhere(c.model.base_model);
  std::string text =
      fmt::format("---\nbase_model: {}\nlibrary_name: {}\npipeline_tag: text-generation\ntags:\n- spillway\n", base,
                  job.graph.model.lora ? "peft" : "transformers");
  if (job.graph.model.lora) text += "- lora\n";
  text += fmt::format("---\n\n# {}\n\n", c.output.output_dir);
  text += fmt::format("{} of `{}` by supervised fine-tuning with Spillway.\n\n",
                      job.graph.model.lora ? "A LoRA adapter" : "A fine-tuned copy", base);
  text += "| setting | value |\n| --- | --- |\n";
  const auto row = [&](std::string_view key, const auto& value) { text += fmt::format("| {} | {} |\n", key, value); };
  row("learning_rate", c.schedule.learning_rate);
  row("micro_batch_size", c.batches.micro_batch_size);
  row("gradient_accumulation_steps", c.batches.gradient_accumulation_steps);
  row("sequence_len", c.batches.sequence_len);
  row("num_epochs", c.schedule.num_epochs);
  if (c.schedule.max_steps) row("max_steps", *c.schedule.max_steps);
  row("seed", c.seed);
  if (job.graph.model.lora) {
    row("lora_r", job.graph.model.lora->r);
    row("lora_alpha", job.graph.model.lora->alpha);
  }
  return text;
}

}  // namespace spillway::train

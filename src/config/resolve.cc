#include "config/resolve.h"

#include <cmath>

#include "backend/device.h"
#include "base/text.h"
#include "config/programs.h"

namespace spillway::config {
namespace {

void check_required(const Resolution& r, ConfigUse use) {
  if (r.keys.base_model.empty()) {
    throw input_error(r.where("base_model"), "expected a Hugging Face folder, got nothing; set base_model");
  }
  if (use == ConfigUse::kTrain && !r.given("learning_rate")) {
    throw input_error(r.where("learning_rate"), "expected a number, got nothing; set learning_rate, for example 2e-4");
  }
}

// Checks the form alone: the machine that trains knows whether the GPU is there.
std::string resolve_device(const Resolution& r) {
  const std::string& device = r.keys.device;
  if (device == "auto" || device == "cpu" || gpu_of(device)) return device;
  throw input_error(r.where("device"), "expected auto, cpu, cuda or cuda:N, got {}; write one of them", quote(device));
}

}  // namespace

void Resolution::check_whole(std::string_view key, std::optional<double> steps) const {
  if (steps && *steps > 1 && *steps != std::floor(*steps)) {
    throw input_error(where(key), "expected an integer or a share below 1, got {}; change the value", *steps);
  }
}

void Resolution::not_yet(std::string_view key, std::string_view expected) const {
  const auto said = loaded.spelled.find(key);
  Verdicts verdicts;
  verdicts.attempt(said == loaded.spelled.end() ? key : said->second, key,
                   [&] { throw NotYetError(fmt::format("[{}] expected {} not yet supported", where(key), expected)); });
  loaded.verdicts.append(std::move(verdicts));
}

void take_defaults(LoadedConfig& loaded) {
  take_fastvideo_keys(loaded);
  take_program_defaults(loaded);
  take_peft_defaults(loaded);
}

Config resolve(LoadedConfig& loaded, ConfigUse use) {
  const Resolution r{loaded};
  Config config;
  config.rewards = resolve_rewards(r, use);
  config.tokenizer = resolve_tokenizer(r);
  if (use == ConfigUse::kRewards) return config;
  check_required(r, use);
  config.data = resolve_data(r);
  config.ranks = resolve_ranks(r);
  config.batches = resolve_batches(r, config.ranks, config.data);
  resolve_packing(r, config.batches, config.data);
  config.adapter = resolve_adapter(r);
  config.quantisation = resolve_quantisation(r);
  config.said_quantisation = said_quantisation(r);
  config.preference = resolve_preference(r, use);
  config.text_loss = resolve_text_loss(r);
  config.entropy_weight = {r.keys.eaft_alpha, r.keys.eaft_k};
  if (config.text_loss != TextLoss::kWeightedByEntropy) r.ignore("eaft_k", "it belongs to use_eaft: true");
  config.label_smoothing = resolve_label_smoothing(r, config.text_loss);
  config.distillation = resolve_distillation(r, config.text_loss);
  config.online = resolve_online(r, config.ranks, config.batches, config.data.rows);
  config.video = resolve_video(r);
  config.schedule = resolve_schedule(r);
  config.optimizer = resolve_optimizer(r);
  config.seed = r.keys.seed;
  config.model = resolve_model(r);
  config.offload = resolve_offload(r);
  config.output = resolve_output(r, config.data);
  config.samples = resolve_samples(r);
  config.memory = resolve_memory(r);
  config.device = resolve_device(r);
  return config;
}

}  // namespace spillway::config

// Video transformers. Which family a model is of is known when its folder is read; until then keys of both may stand.
#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/text.h"
#include "config/keys.h"
#include "config/resolve.h"
#include "config/values.h"
#include "data/rows/dataset_type.h"

namespace spillway::config {
namespace {

// What means tokens or chat, beside the keys of `rl`; a section means all that is in it.
constexpr std::string_view kTextKeys[] = {"max_length",
                                          "sample_packing",
                                          "packing",
                                          "eval_sample_packing",
                                          "chat_template",
                                          "chat_template_jinja",
                                          "chat_template_kwargs",
                                          "eot_tokens",
                                          "train_on_inputs",
                                          "special_tokens",
                                          "eos_token",
                                          "pad_token",
                                          "tokens",
                                          "added_tokens_overrides",
                                          "resize_token_embeddings_to_32x",
                                          "min_sample_len",
                                          "max_prompt_length",
                                          "excess_length_strategy",
                                          "truncation_mode",
                                          "dataset_text_field",
                                          "packing_strategy",
                                          "padding_free",
                                          "tokenizer_config",
                                          "completion_only_loss",
                                          "assistant_only_loss",
                                          "rl",
                                          "reward_model",
                                          "process_reward_model",
                                          "pretraining_dataset",
                                          "dataset_config",
                                          "dataset_train_split",
                                          "dataset_test_split",
                                          "streaming",
                                          "group_by_length",
                                          "sample_prompts",
                                          "dataset_prepared_path",
                                          "dataset_exact_deduplication",
                                          "load_in_4bit",
                                          "load_in_8bit",
                                          "ref_model",
                                          "neftune_noise_alpha"};

// Of an entry of datasets; the other keys are about rows of text.
constexpr std::string_view kClipKeys[] = {"path", "type", "weight", "skip", "shards", "shards_idx"};

// Those that change what an entry without them means.
void add_keys_of_text(std::string_view list, const std::vector<SpelledDataset>& entries, std::vector<GivenKey>& found) {
  const SpelledDataset plain;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const ConfigKey& key : dataset_section().keys) {
      const bool is_of_clips = std::find(std::begin(kClipKeys), std::end(kClipKeys), key.name) != std::end(kClipKeys);
      if (is_of_clips || key.status != KeyStatus::kSupported) continue;
      if (key.binding.print(&entries[i]) != key.binding.print(&plain))
        found.push_back({std::string(key.name), fmt::format("{}.{}.{}", list, i, key.name)});
    }
  }
}

bool is_given(const LoadedConfig& loaded, std::string_view key) { return loaded.given.find(key) != loaded.given.end(); }

void add_datasets(LoadedConfig& loaded) {
  const std::string where = loaded.given.find("data_path")->second;
  if (is_given(loaded, "datasets")) throw input_error(where, "expected datasets or data_path, got both; remove one");
  std::string_view rest = loaded.keys.video.data_path;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view path = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    SpelledDataset dataset;
    int64_t times = 1;
    if (const size_t colon = path.rfind(':'); colon != std::string_view::npos) {
      const char *const begin = path.data() + colon + 1, *const end = path.data() + path.size();
      const auto [stop, error] = std::from_chars(begin, end, times);
      if (error != std::errc() || stop != end || times < 1)
        throw input_error(where, "expected a number behind the colon of {}, got {}; write FOLDER or FOLDER:3",
                          quote(path), quote(path.substr(colon + 1)));
      path = path.substr(0, colon);
    }
    dataset.config.path = path;
    dataset.config.weight = static_cast<double>(times);
    dataset.config.type = {.given = true, .name = std::string(data::kVideoLatents)};
    loaded.keys.datasets.push_back(std::move(dataset));
  }
  loaded.given.emplace("datasets", where);
}

void take_betas(LoadedConfig& loaded) {
  const std::string& text = loaded.keys.video.betas;
  double numbers[2] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 2; ++i) {
    while (at != end && *at == ' ') ++at;
    const auto [stop, error] = std::from_chars(at, end, numbers[i]);
    const bool goes_on = i == 0 && stop != end && *stop == ',';
    if (error != std::errc() || (i == 0 && !goes_on) || (i == 1 && stop != end) || numbers[i] < 0 || numbers[i] >= 1)
      throw input_error(loaded.given.find("betas")->second,
                        "expected two numbers from 0 to below 1 with a comma between them, got {}; write 0.9,0.999",
                        quote(text));
    at = stop + (i == 0 ? 1 : 0);
  }
  for (const auto& [key, said, number] : {std::tuple{"adam_beta1", loaded.keys.adam_beta1, numbers[0]},
                                          {"adam_beta2", loaded.keys.adam_beta2, numbers[1]}}) {
    if (said && *said != number)
      throw input_error(loaded.given.find("betas")->second, "expected {} of {} in it, got {}; remove one", *said, key,
                        number);
  }
  loaded.keys.adam_beta1 = numbers[0];
  loaded.keys.adam_beta2 = numbers[1];
}

// mixed_precision is bf16 in accelerate's words. It says nothing of files.
void take_precision(LoadedConfig& loaded, MixedPrecision said) {
  const Bf16 meant = said == MixedPrecision::kNo ? Bf16::kFalse : Bf16::kTrue;
  const std::string& where = loaded.given.find("mixed_precision")->second;
  if (is_given(loaded, "bf16") && loaded.keys.bf16 != meant)
    throw input_error(where, "expected the same as bf16, {}, got {}; remove one", print_value(loaded.keys.bf16),
                      print_value(said));
  loaded.keys.bf16 = meant;
  loaded.given.emplace("bf16", where);
  if (said == MixedPrecision::kF16)
    loaded.notes.emplace_back("mixed_precision: f16 arithmetic is not computed; bf16 is");
}

}  // namespace

void take_fastvideo_keys(LoadedConfig& loaded) {
  const SpelledVideo& video = loaded.keys.video;
  if (!video.data_path.empty()) add_datasets(loaded);
  if (!video.betas.empty()) take_betas(loaded);
  if (video.mixed_precision) take_precision(loaded, *video.mixed_precision);
  if (video.lora_training) {
    loaded.keys.adapter = Adapter::kLora;
    loaded.given.emplace("adapter", loaded.given.find("lora_training")->second);
  }
  if (video.enable_gradient_checkpointing_type == VideoCheckpointing::kFull &&
      !is_given(loaded, "gradient_checkpointing")) {
    loaded.keys.gradient_checkpointing = Checkpointing::kOn;
    loaded.given.emplace("gradient_checkpointing", loaded.given.find("enable_gradient_checkpointing_type")->second);
  }
}

VideoSettings resolve_video(const Resolution& r) {
  const SpelledVideo& video = r.keys.video;
  VideoSettings result{.component = video.component,
                       .flow = {.weighting_scheme = video.weighting_scheme,
                                .logit_mean = video.logit_mean,
                                .logit_std = video.logit_std,
                                .mode_scale = video.mode_scale,
                                .flow_shift = video.flow_shift,
                                .min_timestep = video.min_timestep,
                                .max_timestep = video.max_timestep,
                                .training_cfg_rate = video.training_cfg_rate,
                                .text_len = video.text_len,
                                .num_latent_t = video.num_latent_t,
                                .seed = static_cast<uint64_t>(r.keys.seed)},
                       .precondition_outputs = video.precondition_outputs,
                       .eval_timesteps = video.eval_timesteps,
                       .log_samples = video.log_samples};
  if (video.normalize_latents != AutoBool::kAuto) result.normalize_latents = video.normalize_latents == AutoBool::kTrue;
  if (video.use_ema) result.ema = {.decay = video.ema_decay, .start_step = video.ema_start_step};
  if (!video.clip_shape.empty()) {
    if (video.clip_shape.size() != 4)
      throw input_error(r.where("clip_shape"), "expected four numbers, got {}; write [channels, frames, rows, columns]",
                        video.clip_shape.size());
    std::copy_n(video.clip_shape.begin(), 4, result.clip_shape.emplace().begin());
  }
  for (const KeySection& section : video_sections()) {
    for (const ConfigKey& one : section.keys)
      if (r.given(one.name)) result.of_video.push_back({std::string(one.name), r.where(one.name)});
  }
  for (const std::string_view name : kTextKeys) {
    for (const auto& [key, where] : r.loaded.given)
      if (key == name || key.starts_with(fmt::format("{}.", name))) result.of_text.push_back({key, where});
  }
  add_keys_of_text("datasets", r.keys.datasets, result.of_text);
  add_keys_of_text("test_datasets", r.keys.test_datasets, result.of_text);
  return result;
}

}  // namespace spillway::config

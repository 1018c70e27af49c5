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

// The keys of an entry of datasets that clips have; the others are about rows of text.
constexpr std::string_view kClipKeys[] = {"path", "type", "weight", "skip", "shards", "shards_idx"};

// Adds the keys of text that change what an entry without them means.
void add_keys_of_text(std::string_view list, const std::vector<SpelledDataset>& entries, std::vector<GivenKey>& found) {
  const SpelledDataset plain;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const ConfigKey& key : dataset_section().keys) {
      const bool is_of_clips = std::find(std::begin(kClipKeys), std::end(kClipKeys), key.name) != std::end(kClipKeys);
      if (is_of_clips || key.status != KeyStatus::kSupported) continue;
      if (key.print(&entries[i]) != key.print(&plain))
        found.push_back({std::string(key.name), fmt::format("{}.{}.{}", list, i, key.name)});
    }
  }
}

bool is_given(const LoadedConfig& loaded, std::string_view key) { return loaded.given.find(key) != loaded.given.end(); }

void add_datasets(LoadedConfig& loaded) {
  const std::string where = loaded.given.find("data_path")->second;
  if (is_given(loaded, "datasets")) throw input_error(where, "expected datasets or data_path, got both; remove one");
  std::string_view rest = loaded.keys.data_path;
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
  const std::string& text = loaded.keys.betas;
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
  const Spelled& keys = loaded.keys;
  if (!keys.data_path.empty()) add_datasets(loaded);
  if (!keys.betas.empty()) take_betas(loaded);
  if (keys.mixed_precision) take_precision(loaded, *keys.mixed_precision);
  if (keys.lora_training) {
    loaded.keys.adapter = Adapter::kLora;
    loaded.given.emplace("adapter", loaded.given.find("lora_training")->second);
  }
  if (keys.enable_gradient_checkpointing_type == VideoCheckpointing::kFull &&
      !is_given(loaded, "gradient_checkpointing")) {
    loaded.keys.gradient_checkpointing = Checkpointing::kOn;
    loaded.given.emplace("gradient_checkpointing", loaded.given.find("enable_gradient_checkpointing_type")->second);
  }
}

VideoSettings resolve_video(const Resolution& r) {
  const Spelled& keys = r.keys;
  VideoSettings result{keys, keys.flow};
  result.flow.seed = static_cast<uint64_t>(keys.seed);
  if (keys.normalize_latents != AutoBool::kAuto) result.normalize_latents = keys.normalize_latents == AutoBool::kTrue;
  if (keys.use_ema) result.ema = {.decay = keys.ema_decay, .start_step = keys.ema_start_step};
  if (!keys.clip_shape.empty()) {
    if (keys.clip_shape.size() != 4)
      throw input_error(r.where("clip_shape"), "expected four numbers, got {}; write [channels, frames, rows, columns]",
                        keys.clip_shape.size());
    std::copy_n(keys.clip_shape.begin(), 4, result.clip_shape.emplace().begin());
  }
  for (const KeySection& section : config_sections()) {
    const bool is_of_video = section.title == "Video" || section.title == "FastVideo's words for other keys";
    for (const ConfigKey& key : section.keys) {
      if (key.type == nullptr || !r.given(key.name)) continue;
      if (is_of_video) result.of_video.push_back({std::string(key.name), r.where(key.name)});
      if (key.is_of_text) result.of_text.push_back({std::string(key.name), r.where(key.name)});
    }
  }
  add_keys_of_text("datasets", r.keys.datasets, result.of_text);
  add_keys_of_text("test_datasets", r.keys.test_datasets, result.of_text);
  return result;
}

}  // namespace spillway::config

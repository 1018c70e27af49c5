#include "job/clips/clip_job.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_field.h"
#include "base/sizes.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/values.h"
#include "data/batch.h"
#include "data/rows/dataset_type.h"
#include "infer/clips/pixels.h"
#include "io/file.h"
#include "job/suggested_changes.h"
#include "job/training_data.h"
#include "model/dit/wan.h"
#include "objectives/flow/flow.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

void read_normalisation(const config::Config& config, data::FlowOptions& flow) {
  const std::optional<bool>& wanted = config.video.normalize_latents;
  if (wanted == false) return;
  const fs::path path = fs::path(config.model.base_model) / ".." / "vae" / "config.json";
  if (!fs::exists(path)) {
    if (!wanted) return;
    throw input_error("normalize_latents", "expected {} beside the transformer's folder, got none; {}",
                      "vae/config.json", "copy it there, or write normalize_latents: false");
  }
  const JsonDocument document(read_file(path, 4 * kMiB), path.lexically_normal().string());
  const JsonField json = document.root();
  if (json["latents_mean"].is_null() && !wanted) return;
  const infer::LatentNumbers numbers = infer::read_latent_numbers(json);
  flow.latents_mean = numbers.mean;
  flow.latents_std = numbers.deviation;
}

// Returns the number of patches of the longest row.
int64_t max_patches_of(const ClipSets& sets, const data::ClipDemands& demands) {
  int64_t most = 0;
  for (const ClipSet* set : {&sets.training, &sets.validation}) {
    for (const int64_t row : set->chosen) most = std::max(most, set->rows->header(row).latents.patches(demands.patch));
  }
  return most;
}

int64_t patches_of_shape(const std::array<int64_t, 4>& shape, const data::ClipDemands& demands) {
  const auto fits = [&](size_t axis) {
    const int64_t size = shape[axis + 1], patch = demands.patch[axis];
    return size % patch == 0 && size / patch <= demands.max_positions;
  };
  if (shape[0] != demands.channels || !fits(0) || !fits(1) || !fits(2)) {
    throw input_error("clip_shape",
                      "expected {} channels, and frames, rows and columns of whole patches [{}], at most {} each way, "
                      "got [{}]; change it",
                      demands.channels, fmt::join(demands.patch, ", "), demands.max_positions, fmt::join(shape, ", "));
  }
  return data::ClipShape{shape[0], shape[1], shape[2], shape[3]}.patches(demands.patch);
}

std::vector<int64_t> all_rows(const data::ClipRows& rows) {
  auto result = make_vector<int64_t>(rows.size());
  std::iota(result.begin(), result.end(), 0);
  return result;
}

// As many as a graph has room for.
void check_images(const ClipSet& set) {
  for (const int64_t row : set.chosen) {
    if (const int64_t tokens = set.rows->header(row).image_rows; tokens > kImageTokens)
      throw input_error(set.rows->where(row), "expected at most {} rows of clip_feature, got {}; use CLIP's own",
                        kImageTokens, tokens);
  }
}

ClipSets read_sets(const config::Config& config, const data::ClipDemands& demands) {
  const auto open = [&](std::string_view key, const std::vector<data::DatasetConfig>& datasets) {
    return std::make_shared<const data::ClipRows>(datasets, demands, key, config.video.flow.num_latent_t);
  };
  ClipSets sets;
  sets.training.rows = open("datasets", config.data.datasets);
  if (!config.data.test_datasets.empty()) {
    sets.validation.rows = open("test_datasets", config.data.test_datasets);
    sets.training.chosen = all_rows(*sets.training.rows);
    sets.validation.chosen = all_rows(*sets.validation.rows);
    return sets;
  }
  data::RowSplit split =
      data::split_validation(sets.training.rows->size(), config.data.val_set_size, config.data.validation_seed);
  sets.validation.rows = sets.training.rows;
  sets.training.chosen = std::move(split.training);
  sets.validation.chosen = std::move(split.validation);
  return sets;
}

}  // namespace

data::ClipDemands demands_of(const VideoModel& model) {
  return {.channels = model.out_channels,
          .patch = model.patch,
          .max_positions = model.max_positions,
          .text_width = model.text_width,
          .image_width = model.image_width,
          .image_channels = model.in_channels - model.out_channels,
          .timestep_size = model.timestep_size};
}

ClipJob make_clip_job(const config::Config& config, const Model& model, const ClipJob* before) {
  ClipJob job;
  job.demands = demands_of(*model.video());
  job.flow = config.video.flow;
  job.preconditions = config.video.precondition_outputs;
  read_normalisation(config, job.flow);
  data::check_flow_options(job.flow, job.demands.channels);
  if (job.demands.image_width > 0 && job.flow.text_len != kTextBesideImages)
    throw input_error("text_len", "expected {} for a model that reads images, got {}; remove it", kTextBesideImages,
                      job.flow.text_len);
  for (const double timestep : config.video.eval_timesteps)
    job.evaluation_points.push_back({static_cast<float>(timestep), fmt::format("loss/t={:g}", timestep)});
  if (config.video.clip_shape) {
    job.max_patches = patches_of_shape(*config.video.clip_shape, job.demands);
    return job;
  }
  const bool are_known = before && before->sets && before->flow.num_latent_t == job.flow.num_latent_t;
  job.sets = are_known ? before->sets : std::make_shared<const ClipSets>(read_sets(config, job.demands));
  check_images(job.sets->training);
  check_images(job.sets->validation);
  job.max_patches = max_patches_of(*job.sets, job.demands);
  for (const ClipSet* set : {&job.sets->training, &job.sets->validation}) {
    for (const int64_t row : set->chosen)
      job.max_frames = std::max(job.max_frames, set->rows->header(row).latents.frames);
  }
  return job;
}

std::shared_ptr<const ClipSets> open_clips(const config::Config& config, const ClipJob& job) {
  if (job.sets) return job.sets;
  auto sets = std::make_shared<const ClipSets>(read_sets(config, job.demands));
  check_images(sets->training);
  check_images(sets->validation);
  if (const int64_t patches = max_patches_of(*sets, job.demands); patches > job.max_patches) {
    throw input_error("clip_shape",
                      "expected a shape of at least {} patches, as the largest row has, got one of {}; "
                      "remove clip_shape",
                      patches, job.max_patches);
  }
  return sets;
}

void check_no_video_keys(const config::Config& config) {
  if (config.video.of_video.empty()) return;
  const config::GivenKey& key = config.video.of_video.front();
  throw input_error(key.where, "expected no {} for a model of text, got one; remove it", key.name);
}

void check_no_text_keys(const config::Config& config) {
  if (!config.video.of_text.empty()) {
    const config::GivenKey& key = config.video.of_text.front();
    throw input_error(key.where, "expected no {} for a model of video, got one; remove it", key.name);
  }
  if (config.adapter && !config.adapter->modules_to_save.empty())
    throw input_error("lora_modules_to_save", "expected none for a model of video, got {}; {}",
                      quote(config.adapter->modules_to_save.front()),
                      "diffusers' files of adapters hold factors alone");
  const auto check = [](std::string_view name, const std::vector<data::DatasetConfig>& datasets) {
    for (size_t i = 0; i < datasets.size(); ++i) {
      const data::DatasetType& type = datasets[i].type;
      if (!type.given || type.name == data::kVideoLatents) continue;
      throw input_error(fmt::format("{}.{}.type", name, i), "expected {} for a model of video, got {}; write it",
                        data::kVideoLatents, quote(type.name));
    }
  };
  check("datasets", config.data.datasets);
  check("test_datasets", config.data.test_datasets);
}

void ClipJob::take_model(Job& job) const {
  if (job.config.data.batches.drops_last)
    throw input_error("dataloader_drop_last", "expected rows of text beside it, got clips; remove it");
  check_no_text_keys(job.config);
}

RowShape ClipJob::read(const RunKind* before, Job& job) {
  *this = make_clip_job(job.config, *job.model, dynamic_cast<const ClipJob*>(before));
  job.config.batches.sequence_len = max_patches;
  return {.text_tokens = flow.text_len};
}

void ClipJob::take_objective(Job& job) const {
  if (const std::optional<config::EmaSettings>& ema = job.config.video.ema)
    job.graph.ema = {.decay = ema->decay, .start_step = ema->start_step};
  job.graph.objective = flow_objective(preconditions, job.config.samples.every_steps > 0);
}

TrainingData ClipJob::load(const Job& job, const std::optional<std::tm>&,
                           const std::function<void(int64_t records)>&) const {
  TrainingData data;
  data.clips = open_clips(job.config, *this);
  return data;
}

std::string ClipJob::method(const Job&) const { return ""; }

CardWords ClipJob::card(const Job&) const {
  const bool reads_image = demands.image_width > 0;
  return {.tag = "flow-matching",
          .method = "flow matching",
          .task = reads_image ? "image-to-video" : "text-to-video",
          .pipeline = reads_image ? "WanImageToVideoPipeline" : "WanPipeline"};
}

void ClipJob::add_settings(const Job& job, RunSettings& settings) const {
  config::Spelled keys;
  keys.flow = flow;
  keys.precondition_outputs = preconditions;
  settings.merge(config::compared_values("Video", 0, keys));
  settings["normalize_latents"] = config::print_value(!flow.latents_mean.empty());
  settings["eval_timesteps"] = print_numbers(job.config.video.eval_timesteps);
  settings["use_ema"] = config::print_value(job.graph.ema.has_value());
  if (!job.graph.ema) return;
  settings["ema_decay"] = config::print_value(job.graph.ema->decay);
  settings["ema_start_step"] = config::print_value(job.graph.ema->start_step);
}

// Offers fewer frames, if the rows say how many theirs have.
SuggestedChange ClipJob::shorter_rows(const config::LoadedConfig& loaded, const Job&) const {
  SuggestedChange suggestion{.trains = "on shorter clips"};
  const int64_t of_patch = demands.patch[0];
  for (int64_t frames = max_frames / 2; sets && frames >= of_patch; frames /= 2)
    suggestion.grades.push_back(
        {{spelled_key(loaded, "num_latent_t"), fmt::format("{}", frames / of_patch * of_patch)}});
  return suggestion;
}

}  // namespace spillway::train

#include "saved/base_files.h"

#include <algorithm>

#include "base/json.h"
#include "io/convert.h"
#include "io/file.h"
#include "model/config_dtype.h"
#include "model/quantised/quantisation_config.h"
#include "model/token_ids.h"
#include "model/wrapper_parts.h"
#include "saved/model_card.h"
#include "saved/tokenizer_files.h"

namespace spillway::train {
namespace {

constexpr int64_t kMaxProcessorBytes = int64_t{1} << 26;

// Sets the dtype of the files of a model that is written whole. Weights of 32 bits beside others of 16 stay as they
// are: such files keep them wide on purpose.
void write_in(DType dtype, const Job& job, BaseFiles& files) {
  const bool has_narrow = std::any_of(files.dtypes.begin(), files.dtypes.end(),
                                      [](const auto& one) { return size_of(one.second) == size_of(DType::kF16); });
  const auto changes = [&](DType stored) { return is_floating(stored) && !(has_narrow && stored == DType::kF32); };
  for (auto& [name, stored] : files.dtypes)
    if (changes(stored)) stored = dtype;
  for (TensorSpec& tensor : files.tensors_of_wrapper_parts)
    if (tensor.foreign_dtype.empty() && changes(tensor.dtype)) tensor.dtype = dtype;
  if (!job.model->text()) return;  // diffusers' configs name no dtype
  std::string& text = files.beside_weights["config.json"];
  auto config = parse_json<nlohmann::ordered_json>(text, "config.json");
  set_config_dtype(config, dtype);
  text = json_text(config, 2) + "\n";
}

// Adds the ends of answers that were learned to the generation_config.json among `files`.
void add_ends(const std::filesystem::path& base, std::span<const int32_t> ends, FileTexts& files) {
  if (ends.empty()) return;
  constexpr const char* kGeneration = "generation_config.json";
  const auto generation = files.find(kGeneration);
  const std::string before = generation != files.end() ? generation->second : std::string();
  const auto config = files.find("config.json");
  const std::string of_model =
      config != files.end() ? config->second : read_file(base / "config.json", kMaxProcessorBytes);
  const std::string now = with_ends(before, of_model, ends, kGeneration);
  if (now != before) files[kGeneration] = now;
}

}  // namespace

BaseFiles read_base_files(const Job& job, std::span<const int32_t> ends) {
  const std::filesystem::path base = job.config.model.base_model;
  BaseFiles files{.license = license_lines(base)};
  if (const auto& lora = job.graph.model.lora; !lora || lora->restarts) {  // which ends as a whole model
    files.beside_weights["config.json"] = without_quantisation(job.model->config_json(base));
    SafetensorsFolder weights = open_weights(base);
    for (const auto& [name, entry] : weights.tensors())
      files.dtypes.emplace(name, entry.tensor->dtype().value_or(DType::kF32));
    const ParameterTable parameters = parameters_of(*job.model);
    for (const Parameter& p : parameters)
      if (p.source.storage->is_coded())
        files.dtypes[p.source.name] =
            p.source.storage->decoded_dtype({p.shape, job.model->dtype().value_or(DType::kBF16)});
    warn_of_parts_left_out(weights, parameters);
    files.tensors_of_wrapper_parts = tensors_of_wrapper_parts(weights, parameters);
    if (!files.tensors_of_wrapper_parts.empty()) files.wrapper_parts = std::move(weights);
    if (layout_of(*job.model) == Layout::kDiffusers) files.pipeline = pipeline_parts(base);
    if (const std::optional<DType> dtype = job.config.model.written_dtype; dtype && !job.graph.model.lora)
      write_in(*dtype, job, files);
  }
  if (!files.tensors_of_wrapper_parts.empty()) {
    for (const char* name :
         {"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json", "chat_template.json"})
      if (std::filesystem::is_regular_file(base / name))
        files.beside_weights[name] = read_file(base / name, kMaxProcessorBytes);
  }
  if (job.model->text()) {
    add_tokenizer_files(job.config.tokenizer, job.config.data.rows, base, files.beside_weights);
    add_ends(base, ends, files.beside_weights);
  }
  return files;
}

}  // namespace spillway::train

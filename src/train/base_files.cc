#include "train/base_files.h"

#include "train/model_card.h"
#include "train/tokenizer_files.h"

namespace spillway::train {

BaseFiles read_base_files(const Job& job) {
  const std::filesystem::path base = job.config.model.base_model;
  BaseFiles files{.license = license_lines(base)};
  if (!job.graph.model.lora) {
    files.beside_weights["config.json"] = job.model->config_json(base);
    const SafetensorsFolder weights = open_weights(base);
    for (const auto& [name, entry] : weights.tensors())
      files.dtypes.emplace(name, entry.tensor->dtype().value_or(DType::kF32));
    if (layout_of(*job.model) == Layout::kDiffusers) files.pipeline = pipeline_parts(base);
  }
  if (job.model->text()) add_tokenizer_files(job.config.tokenizer, job.config.data.rows, base, files.beside_weights);
  return files;
}

}  // namespace spillway::train

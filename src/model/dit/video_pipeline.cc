#include "model/dit/video_pipeline.h"

#include "base/bytes.h"
#include "base/json_field.h"
#include "hub/pipeline.h"
#include "io/file.h"
#include "model/model_folder.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr double kTimesteps = 1000;
constexpr const char* kWhere = "MODEL";

}  // namespace

VideoPipeline read_video_pipeline(const std::string& folder) {
  VideoPipeline pipeline;
  pipeline.transformers.emplace_back(model_folder(folder, kWhere));
  const fs::path index = fs::path(folder) / hub::kPipelineIndex;
  std::error_code error;
  if (!fs::is_regular_file(index, error)) return pipeline;
  const JsonDocument document(read_file(index, 4 * kMiB), index.string());
  const JsonField ratio = document.root()["boundary_ratio"];
  if (ratio.is_null()) return pipeline;
  pipeline.boundary = ratio.real(0, 1) * kTimesteps;
  pipeline.transformers.emplace_back(model_folder(folder, kWhere, hub::FolderUse::kModel, {}, "transformer_2"));
  return pipeline;
}

}  // namespace spillway

#include "saved/merged_base.h"

#include <system_error>

#include "base/error.h"
#include "io/file.h"
#include "io/folder_record.h"
#include "model/weights.h"

namespace spillway::train {

namespace fs = std::filesystem;

fs::path write_merged_base(const fs::path& output, const ModelInTraining& model) {
  AtomicFolder folder(output / kMergedBase, "train");
  (void)save_merged_model(folder.path(), model);
  folder.publish();
  return output / kMergedBase;
}

void link_merged_base(const fs::path& from, const fs::path& to) {
  create_folders(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (!entry.is_regular_file() || entry.path().filename() == kRecordName) continue;
    const fs::path target = to / entry.path().filename();
    std::error_code no_links;
    fs::create_hard_link(entry.path(), target, no_links);
    if (no_links) fs::copy_file(entry.path(), target);
  }
}

SafetensorsFolder open_merged_base(const fs::path& folder, const Job& job, const MergedBase& written) {
  SafetensorsFolder weights = open_model_weights(folder, parameters_of(*job.model, job.graph.model));
  const std::string other = difference(written.weights, identify_base(weights));
  if (!other.empty())
    throw input_error(folder.string(), "expected the base that the checkpoint was written with, got one {}; {}", other,
                      "resume from another checkpoint");
  return weights;
}

}  // namespace spillway::train

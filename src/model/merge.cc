#include "model/merge.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/output_folder.h"
#include "io/safetensors_writer.h"
#include "model/copied_files.h"
#include "model/layout.h"
#include "model/merged_weights.h"
#include "model/quantised/quantisation_config.h"
#include "model/token_ids.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMergeCommand = "merge";

bool has_tokenizer(const fs::path& folder) { return fs::is_regular_file(folder / "tokenizer.json"); }

}  // namespace

void merge_adapter(const fs::path& model, const fs::path& adapter, const fs::path& out, MergeBase base,
                   const MergeProgress& progress) {
  check_apart("--out", out, std::array{CommandInput{"MODEL", model}, CommandInput{"--adapter", adapter}});
  check_replaceable("--out", out, kMergeCommand);
  merge_adapter(read_model(model), model, adapter, out, base, progress);
}

void merge_adapter(ModelPtr read, const fs::path& model, const fs::path& adapter, const fs::path& out, MergeBase base,
                   const MergeProgress& progress) {
  const MergedWeights merged(std::move(read), model, adapter, base);
  // The adapter's chat templates stand for all of the model's.
  const bool has_templates = has_tokenizer(adapter) && !text::Tokenizer::load(adapter).chat_templates().empty();
  const std::vector<fs::path> of_model =
      files_to_copy(model, [&](std::string_view name) { return !has_templates || !is_chat_template(name); });
  const std::vector<fs::path> of_adapter = files_to_copy(adapter, is_of_tokenizer);
  AtomicFolder folder(out, kMergeCommand);
  const Layout layout = layout_of(merged.model());
  const fs::path weights = weights_folder(layout, folder.path(), component_name(model));
  create_folders(weights);
  SafetensorsFolderWriter writer(weights, merged.tensors(), SafetensorsFolderWriter::kDefaultShardBytes,
                                 weights_stem(layout));
  write_merged_weights(merged, writer, progress);
  writer.commit();
  copy_files(of_model, weights);
  if (layout == Layout::kDiffusers) {
    write_pipeline_parts(pipeline_parts(model), folder.path());
  } else {
    copy_files(of_adapter, weights);
  }
  write_file(weights / "config.json", without_quantisation(merged.model().config_json(model)));
  if (has_tokenizer(adapter) && has_tokenizer(model))
    save_token_ids(weights, text::Tokenizer::load(model), text::Tokenizer::load(weights));
  if (layout != Layout::kDiffusers) save_ends(weights, listed_ends(adapter));
  folder.publish();
}

}  // namespace spillway

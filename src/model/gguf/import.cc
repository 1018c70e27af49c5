#include "model/gguf/import.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/output_folder.h"
#include "model/gguf/config.h"
#include "model/gguf/tokenizer.h"
#include "model/gguf/weights.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCommand = "import";

// The conversion of a tensor.
struct Transfer {
  const GgufTensor* from = nullptr;
  TensorSpec to;
  int64_t permuted_heads = 0;  // > 0: rows are put back into Hugging Face's order, head by head
};

// Every weight of the model, found in the file.
std::vector<Transfer> transfers_of(const GgufFile& file, const GgufModel& model, DType dtype) {
  std::vector<Transfer> list;
  std::set<std::string, std::less<>> used = {"rope_freqs.weight"};
  for (GgufWeight& weight : gguf_weights(model)) {
    const GgufTensor* tensor = file.find_tensor(weight.gguf);
    if (tensor == nullptr || tensor->shape != weight.shape) {
      throw input_error(file.path().string(), "expected a tensor {} of [{}], got {}; use another file of the model",
                        weight.gguf, fmt::join(weight.shape, ", "),
                        tensor == nullptr ? "none" : fmt::format("[{}]", fmt::join(tensor->shape, ", ")));
    }
    used.insert(weight.gguf);
    list.push_back({tensor, {weight.name, dtype, std::move(weight.shape)}, weight.permuted_heads});
  }
  // A tensor that config.json says nothing about would be lost without a word.
  for (const auto& [name, tensor] : file.tensors()) {
    if (used.contains(name)) continue;
    throw input_error(file.path().string(),
                      "expected only the tensors of its architecture, got {} as well; use the model's original folder",
                      quote(name));
  }
  return list;
}

void copy_permuted(const GgufFile& file, const Transfer& transfer, SafetensorsFolderWriter& writer) {
  const GgufTensor& tensor = *transfer.from;
  const bool vector = tensor.shape.size() == 1;
  const int64_t head_dim = div_exact(tensor.shape[0], transfer.permuted_heads);
  const int64_t row = vector ? 1 : tensor.row_elems();
  auto head = make_vector<float>(head_dim * row);
  std::vector<float> parted(head.size()), biases;
  if (vector) {
    resize(biases, tensor.elems());
    file.read_rows(tensor, 0, 1, biases.data());
  }
  for (int64_t h = 0; h < transfer.permuted_heads; ++h) {
    if (!vector) file.read_rows(tensor, h * head_dim, head_dim, head.data());
    part_halves(vector ? biases.data() + h * head_dim : head.data(), parted.data(), head_dim, row);
    writer.append(transfer.to.name, parted.data(), DType::kF32, head_dim * row);
  }
}

void copy_plain(const GgufFile& file, const Transfer& transfer, SafetensorsFolderWriter& writer) {
  constexpr int64_t kChunkElems = int64_t{1} << 20;
  const GgufTensor& tensor = *transfer.from;
  const int64_t row = tensor.row_elems(), rows = tensor.elems() / row;
  const int64_t most = std::clamp<int64_t>(kChunkElems / row, 1, rows);
  auto values = make_vector<float>(most * row);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    file.read_rows(tensor, first, count, values.data());
    writer.append(transfer.to.name, values.data(), DType::kF32, count * row);
  }
}

// GGUF promises UTF-8; the JSON library throws where a file breaks that promise.
void write_json(const fs::path& path, const Json& json, int indent, const fs::path& source) {
  try {
    write_file(path, json.dump(indent) + "\n");
  } catch (const Json::type_error&) {
    throw input_error(source.string(), "expected metadata in UTF-8, got other bytes; convert the model again");
  }
}

Json generation_config(const Json& config) {
  Json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.contains(key)) generation[key] = config[key];
  }
  return generation;
}

// Throws InputError for a config that the reader of the folder would refuse, before any weight is converted.
void check_is_readable(const Json& config, const fs::path& source) {
  check_config(json_text(config), fmt::format("{}: config.json", source.string()));
}

}  // namespace

ImportReport import_gguf(const fs::path& path, const fs::path& folder, const ImportOptions& options) {
  const GgufFile file(path);
  const GgufModel model = read_gguf_model(file);
  GgufTokenizerFiles tokenizer = convert_gguf_tokenizer(file);
  const Json config = gguf_config(file, model, tokenizer, options.dtype);
  check_is_readable(config, path);
  const std::vector<Transfer> transfers = transfers_of(file, model, options.dtype);
  check_apart("--out", folder, std::array{CommandInput{"FILE.gguf", path}});
  check_replaceable("--out", folder, kCommand);

  AtomicFolder out(folder, kCommand);
  write_json(out.path() / "config.json", config, 2, path);
  write_json(out.path() / "generation_config.json", generation_config(config), 2, path);
  write_json(out.path() / "tokenizer_config.json", tokenizer.tokenizer_config, 2, path);
  write_json(out.path() / "tokenizer.json", tokenizer.tokenizer, -1, path);

  ImportReport report{.architecture = model.architecture};
  std::vector<TensorSpec> specs;
  for (const Transfer& transfer : transfers) {
    specs.push_back(transfer.to);
    ++report.tensors;
    report.parameters += transfer.to.elems();
    report.bytes += transfer.to.bytes();
  }
  SafetensorsFolderWriter writer(out.path(), specs, options.max_shard_bytes);
  int64_t done = 0;
  for (const Transfer& transfer : transfers) {
    transfer.permuted_heads > 0 ? copy_permuted(file, transfer, writer) : copy_plain(file, transfer, writer);
    done += transfer.to.bytes();
    if (options.progress) options.progress(done, report.bytes);
  }
  writer.commit();
  out.publish();
  return report;
}

}  // namespace spillway

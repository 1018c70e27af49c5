#include "model/gguf/import.h"

#include <algorithm>
#include <array>
#include <cmath>
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
  int64_t first_row = 0;       // of `from`, which is that of all experts where `to` is that of one
  int64_t permuted_heads = 0;  // > 0: rows are put back into Hugging Face's order, head by head
  float shift = 0;             // is subtracted from every value
};

// Every weight of the model, found in the file.
std::vector<Transfer> transfers_of(const GgufFile& file, const GgufDescription& description, DType dtype) {
  std::vector<Transfer> list;
  std::set<std::string, std::less<>> used = {"rope_freqs.weight"};  // of ones it says nothing
  for (const GgufConstant& constant : description.constants) used.insert(constant.name);
  for (const GgufWeight& weight : description.weights) {
    const GgufTensor* tensor = file.find_tensor(weight.gguf);
    if (tensor == nullptr || tensor->shape != weight.shape) {
      throw input_error(file.path().string(), "expected a tensor {} of [{}], got {}; use another file of the model",
                        weight.gguf, fmt::join(weight.shape, ", "),
                        tensor == nullptr ? "none" : fmt::format("[{}]", fmt::join(tensor->shape, ", ")));
    }
    used.insert(weight.gguf);
    int64_t first_row = 0;
    for (const std::string& name : weight.names()) {
      list.push_back({.from = tensor,
                      .to = {name, dtype, weight.shape_in_files()},
                      .first_row = first_row,
                      .permuted_heads = weight.permuted_heads,
                      .shift = weight.shift});
      first_row += list.back().to.elems() / tensor->row_elems();
    }
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
  const int64_t row = tensor.row_elems(), rows = transfer.to.elems() / row;
  const int64_t most = std::clamp<int64_t>(kChunkElems / row, 1, rows);
  auto values = make_vector<float>(most * row);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    file.read_rows(tensor, transfer.first_row + first, count, values.data());
    for (float& value : values) value -= transfer.shift;
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

// Returns true if a value of the file is the one that the model would be exported with.
bool is_same(const GgufEntry& ours, const GgufValue& theirs) {
  constexpr double kTolerance = 1e-6;
  if (const auto* number = std::get_if<float>(&ours)) {
    const auto* other = std::get_if<double>(&theirs);
    return other != nullptr && std::abs(*other - double{*number}) <= kTolerance * std::abs(*other);
  }
  if (const auto* whole = std::get_if<uint32_t>(&ours)) {
    const auto* other = std::get_if<int64_t>(&theirs);
    return other != nullptr && *other == int64_t{*whole};
  }
  const auto *text = std::get_if<std::string>(&ours), *other = std::get_if<std::string>(&theirs);
  return text == nullptr || other == nullptr || *text == *other;
}

// Throws InputError for a number of the file that the config.json does not carry.
void check_is_carried(const GgufFile& file, const GgufMetadata& carried) {
  for (const auto& [key, value] : carried) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end() || is_same(value, found->second)) continue;
    throw input_error(file.path().string(),
                      "expected {} as a model of its architecture has it, got another value; use the model's original "
                      "folder",
                      key);
  }
}

}  // namespace

ImportReport import_gguf(const fs::path& path, const fs::path& folder, const ImportOptions& options) {
  const GgufFile file(path);
  check_gguf_model(file);
  GgufTokenizerFiles tokenizer = convert_gguf_tokenizer(file);
  const Json config = gguf_config(file, tokenizer, options.dtype);
  const GgufDescription description =
      imported_gguf_description(json_text(config), fmt::format("{}: config.json", path.string()));
  check_is_carried(file, description.metadata);
  const std::vector<Transfer> transfers = transfers_of(file, description, options.dtype);
  check_apart("--out", folder, std::array{CommandInput{"FILE.gguf", path}});
  check_replaceable("--out", folder, kCommand);

  AtomicFolder out(folder, kCommand);
  write_json(out.path() / "config.json", config, 2, path);
  write_json(out.path() / "generation_config.json", generation_config(config), 2, path);
  write_json(out.path() / "tokenizer_config.json", tokenizer.tokenizer_config, 2, path);
  write_json(out.path() / "tokenizer.json", tokenizer.tokenizer, -1, path);

  ImportReport report{.architecture = description.model.architecture};
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

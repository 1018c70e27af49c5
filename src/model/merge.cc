#include "model/merge.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "backend/cpu/matmul.h"
#include "base/error.h"
#include "io/file.h"
#include "io/folder_record.h"
#include "io/output_folder.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/weights.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommand = "merge";
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// Adds scale * B A to the weight of one layer.
void add_product(std::vector<float>& weight, const LinearModule& module, const LoraOptions& lora,
                 const SafetensorsFolder& factors, ThreadPool& pool) {
  std::vector<float> a(static_cast<size_t>(lora.r * module.in_features)),
      b(static_cast<size_t>(module.out_features * lora.r));
  factors.read(lora_name(module.name, 'A'), DType::kF32, a.data());
  factors.read(lora_name(module.name, 'B'), DType::kF32, b.data());
  const cpu::MatmulShape shape{module.out_features, module.in_features, lora.r, false, false};
  const int64_t bytes = cpu::matmul_workspace_bytes(shape, DType::kF32, DType::kF32, pool.threads());
  std::vector<std::byte> storage(static_cast<size_t>(bytes + 64));
  void* workspace = storage.data();
  size_t space = storage.size();
  std::align(64, static_cast<size_t>(bytes), workspace, space);
  cpu::matmul({.shape = shape,
               .a = {b.data(), DType::kF32, lora.r},
               .b = {a.data(), DType::kF32, module.in_features},
               .c = weight.data(),
               .c_dtype = DType::kF32,
               .c_stride = module.in_features,
               .alpha = static_cast<float>(lora.scale()),
               .addend = weight.data(),
               .addend_dtype = DType::kF32,
               .addend_stride = module.in_features},
              static_cast<std::byte*>(workspace), pool);
}

// What the merged model holds: the base's tensors, a head where the adapter has untied it, and the shapes of what the
// adapter holds in full.
std::vector<TensorSpec> merged_tensors(const ModelConfig& config, const SafetensorsFolder& base,
                                       const SafetensorsFolder& adapter) {
  std::vector<TensorSpec> specs;
  const auto add = [&](const std::string& name, const StoredTensor& stored) {
    const StoredTensor* saved = adapter.find(adapter_tensor_name(name));
    specs.push_back({name, stored.dtype().value(), saved != nullptr ? saved->shape : stored.shape});
  };
  for (const auto& [name, entry] : base.tensors()) add(name, *entry.tensor);
  if (config.copies_head && !base.find(kHead)) add(std::string(kHead), *base.find(kEmbedding));
  return specs;
}

bool is_of_tokenizer(const std::string& name) {
  return name.starts_with("tokenizer") || name == "special_tokens_map.json" || name == "added_tokens.json" ||
         name == "vocab.json" || name == "merges.txt" || name == "chat_template.jinja";
}

// In whatever format: of the model before the merge, and perhaps too large to be copied.
bool is_weights(std::string_view name) {
  constexpr std::array<std::string_view, 12> kEndings = {".safetensors", ".safetensors.index.json",
                                                         ".bin",         ".bin.index.json",
                                                         ".gguf",        ".pt",
                                                         ".pth",         ".h5",
                                                         ".msgpack",     ".ot",
                                                         ".onnx",        ".ckpt"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

template <typename Wanted>
void copy_other_files(const fs::path& from, const fs::path& to, const Wanted& wanted) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && !is_weights(name) && name != "README.md" && name != kRecordName && wanted(name))
      write_file(to / name, read_file(entry.path(), kMaxFileBytes));
  }
}

}  // namespace

void merge_adapter(const fs::path& model, const fs::path& adapter, const fs::path& out) {
  check_apart("--out", out, std::array{CommandInput{"MODEL", model}, CommandInput{"--adapter", adapter}});
  check_replaceable("--out", out, kCommand);
  ModelConfig config = read_model_config(model);
  const LoraOptions lora = read_adapter_options(adapter);
  fit_to_adapter(config, lora, adapter);
  const SafetensorsFolder base = open_model_weights(model, config);
  const SafetensorsFolder factors = open_adapter_weights(adapter, config, lora);
  std::map<std::string, LinearModule> adapted;
  for (const LinearModule& module : lora_targets(config, lora, adapter.string()))
    adapted.emplace(module.name + ".weight", module);

  const std::vector<TensorSpec> specs = merged_tensors(config, base, factors);
  AtomicFolder folder(out, kCommand);
  SafetensorsFolderWriter writer(folder.path(), specs);
  ThreadPool pool(available_cpus());
  for (const TensorSpec& spec : specs) {
    std::vector<float> values(static_cast<size_t>(spec.elems()));
    if (const std::string saved = adapter_tensor_name(spec.name); factors.find(saved)) {
      factors.read(saved, DType::kF32, values.data());
    } else {
      base.read(stored_name(config, spec.name), DType::kF32, values.data());
    }
    if (const auto found = adapted.find(spec.name); found != adapted.end())
      add_product(values, found->second, lora, factors, pool);
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
  copy_other_files(model, folder.path(), [](const std::string&) { return true; });
  copy_other_files(adapter, folder.path(), is_of_tokenizer);
  write_file(folder.path() / "config.json", model_config_json(model, config));
  folder.publish();
}

}  // namespace spillway

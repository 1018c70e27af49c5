#include "model/import_gguf.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/output_folder.h"
#include "model/gguf_config.h"
#include "model/gguf_tokenizer.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCommand = "import";

// How one tensor goes over.
struct Transfer {
  const GgufTensor* from = nullptr;
  TensorSpec to;
  int64_t permuted_heads = 0;  // > 0: rows are put back into Hugging Face's order, head by head
};

class Transfers {
 public:
  Transfers(const GgufFile& file, const GgufModel& model, DType dtype) : file_(file), dtype_(dtype) {
    const int64_t queries = model.heads * model.head_dim, keys = model.kv_heads * model.head_dim;
    const int64_t hidden = model.hidden, inner = model.intermediate;
    const bool llama = model.architecture == "llama", qwen3 = model.architecture == "qwen3";
    add("token_embd.weight", "model.embed_tokens.weight", {model.vocabulary, hidden});
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      from_ = fmt::format("blk.{}.", layer);
      to_ = fmt::format("model.layers.{}.", layer);
      add("attn_norm.weight", "input_layernorm.weight", {hidden});
      linear("attn_q", "self_attn.q_proj", queries, hidden, model.qkv_bias, llama ? model.heads : 0);
      linear("attn_k", "self_attn.k_proj", keys, hidden, model.qkv_bias, llama ? model.kv_heads : 0);
      linear("attn_v", "self_attn.v_proj", keys, hidden, model.qkv_bias);
      linear("attn_output", "self_attn.o_proj", hidden, queries, model.output_bias);
      if (qwen3) add("attn_q_norm.weight", "self_attn.q_norm.weight", {model.head_dim});
      if (qwen3) add("attn_k_norm.weight", "self_attn.k_norm.weight", {model.head_dim});
      add("ffn_norm.weight", "post_attention_layernorm.weight", {hidden});
      linear("ffn_gate", "mlp.gate_proj", inner, hidden, model.mlp_bias);
      linear("ffn_up", "mlp.up_proj", inner, hidden, model.mlp_bias);
      linear("ffn_down", "mlp.down_proj", hidden, inner, model.mlp_bias);
    }
    from_ = to_ = "";
    add("output_norm.weight", "model.norm.weight", {hidden});
    if (!model.tied) add("output.weight", "lm_head.weight", {model.vocabulary, hidden});
    refuse_others();
  }

  [[nodiscard]] const std::vector<Transfer>& list() const { return list_; }

 private:
  void linear(std::string_view from, std::string_view to, int64_t rows, int64_t columns, bool bias,
              int64_t permuted_heads = 0) {
    add(fmt::format("{}.weight", from), fmt::format("{}.weight", to), {rows, columns}, permuted_heads);
    if (bias) add(fmt::format("{}.bias", from), fmt::format("{}.bias", to), {rows}, permuted_heads);
  }

  void add(std::string_view from, std::string_view to, std::vector<int64_t> shape, int64_t permuted_heads = 0) {
    const std::string name = fmt::format("{}{}", from_, from);
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr || tensor->shape != shape) {
      throw input_error(file_.path().string(), "expected a tensor {} of [{}], got {}; use another file of the model",
                        name, fmt::join(shape, ", "),
                        tensor == nullptr ? "none" : fmt::format("[{}]", fmt::join(tensor->shape, ", ")));
    }
    used_.insert(name);
    list_.push_back({tensor, {fmt::format("{}{}", to_, to), dtype_, std::move(shape)}, permuted_heads});
  }

  // A tensor that config.json says nothing about would be lost without a word.
  void refuse_others() const {
    for (const auto& [name, tensor] : file_.tensors()) {
      if (name == "rope_freqs.weight" || used_.contains(name)) continue;
      throw input_error(
          file_.path().string(),
          "expected only the tensors of its architecture, got {} as well; use the model's original folder",
          quote(name));
    }
  }

  const GgufFile& file_;
  DType dtype_;
  std::string from_, to_;  // prefixes of the names
  std::vector<Transfer> list_;
  std::set<std::string, std::less<>> used_;
};

// llama.cpp rotates neighbouring rows of a head, Hugging Face row i and row i + size / 2; so converters interleave the
// two halves of each head, and here they are parted again. `from` and `to`: [head_dim, row] f32.
void part_halves(const float* from, float* to, int64_t head_dim, int64_t row) {
  for (int64_t i = 0; i < head_dim; ++i) {
    const int64_t source = i < head_dim / 2 ? 2 * i : 2 * (i - head_dim / 2) + 1;
    std::copy_n(from + source * row, row, to + i * row);
  }
}

void copy_permuted(const GgufFile& file, const Transfer& transfer, SafetensorsFolderWriter& writer) {
  const GgufTensor& tensor = *transfer.from;
  const bool vector = tensor.shape.size() == 1;
  const int64_t head_dim = div_exact(tensor.shape[0], transfer.permuted_heads);
  const int64_t row = vector ? 1 : tensor.row_elems();
  std::vector<float> head(static_cast<size_t>(head_dim * row)), parted(head.size()), biases;
  if (vector) {
    biases.resize(static_cast<size_t>(tensor.elems()));
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
  std::vector<float> values(static_cast<size_t>(most * row));
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

}  // namespace

ImportReport import_gguf(const fs::path& path, const fs::path& folder, const ImportOptions& options) {
  const GgufFile file(path);
  const GgufModel model = read_gguf_model(file);
  GgufTokenizerFiles tokenizer = convert_gguf_tokenizer(file);
  const Json config = gguf_config(file, model, tokenizer, options.dtype);
  const Transfers transfers(file, model, options.dtype);
  check_apart("--out", folder, std::array{CommandInput{"FILE.gguf", path}});
  check_replaceable("--out", folder, kCommand);

  AtomicFolder out(folder, kCommand);
  write_json(out.path() / "config.json", config, 2, path);
  write_json(out.path() / "generation_config.json", generation_config(config), 2, path);
  write_json(out.path() / "tokenizer_config.json", tokenizer.tokenizer_config, 2, path);
  write_json(out.path() / "tokenizer.json", tokenizer.tokenizer, -1, path);

  ImportReport report{.architecture = model.architecture};
  std::vector<TensorSpec> specs;
  for (const Transfer& transfer : transfers.list()) {
    specs.push_back(transfer.to);
    ++report.tensors;
    report.parameters += transfer.to.elems();
    report.bytes += transfer.to.bytes();
  }
  SafetensorsFolderWriter writer(out.path(), specs, options.max_shard_bytes);
  for (const Transfer& transfer : transfers.list()) {
    transfer.permuted_heads > 0 ? copy_permuted(file, transfer, writer) : copy_plain(file, transfer, writer);
  }
  writer.commit();
  out.publish();
  return report;
}

}  // namespace spillway

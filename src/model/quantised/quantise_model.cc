#include "model/quantised/quantise_model.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "model/config_dtype.h"
#include "model/config_overrides.h"
#include "model/copied_files.h"
#include "model/model.h"
#include "model/quantised/quantisation_config.h"
#include "model/quantised/quantised_tensors.h"
#include "model/storages/quantised.h"
#include "model/weights.h"
#include "tensor/codebook.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kQuantizeCommand = "quantize";
constexpr int64_t kCopiedElems = int64_t{1} << 22;  // that are copied at a time

// A tensor of the model's files, and what is written for it.
struct TensorTransfer {
  const StoredTensor* from = nullptr;
  DType dtype = DType::kF32;             // in which it is copied, or quantised
  std::optional<QuantisedTensor> coded;  // empty: it is copied
  QuantisedFormat format;                // of what is coded
};

// The offset is known late, and with it the length of the text: spaces fill it up, which JSON allows.
int64_t state_bytes(const QuantState& state) {
  constexpr int64_t kLongestNumber = 24;
  return std::ssize(quant_state_json(state)) + (state.format.double_quant ? kLongestNumber : 0);
}

std::vector<TensorSpec> specs_of(const TensorTransfer& transfer) {
  if (!transfer.coded) return {{transfer.from->name, transfer.dtype, transfer.from->shape}};
  const QuantisedTensor& coded = *transfer.coded;
  const int64_t elems = coded.shape.elems();
  if (!coded.four) {
    return {{coded.name, DType::kI8, coded.shape.dims()},
            {coded.absmax(), DType::kF32, {coded.shape[0]}},
            {coded.weight_format(), DType::kU8, {}}};
  }
  const QuantisedFormat& format = coded.four->format;
  const int64_t blocks = four_bit_blocks(elems, format.block_size);
  std::vector<TensorSpec> specs = {{coded.name, DType::kU8, {four_bit_code_bytes(elems), 1}},
                                   {coded.absmax(), format.double_quant ? DType::kU8 : DType::kF32, {blocks}},
                                   {coded.quant_map(), DType::kF32, {16}},
                                   {coded.quant_state(), DType::kU8, {state_bytes(*coded.four)}}};
  if (format.double_quant) {
    specs.push_back({coded.nested_absmax(), DType::kF32, {div_ceil(blocks, kNestedBlockSize)}});
    specs.push_back({coded.nested_quant_map(), DType::kF32, {256}});
  }
  return specs;
}

std::vector<TensorTransfer> tensor_transfers(const ParameterTable& parameters, const SafetensorsFolder& base,
                                             const QuantiseOptions& options) {
  std::set<std::string_view> linear, others;
  for (const Parameter& p : parameters) {
    if (p.is_of_model()) (p.role == ParameterRole::kLinear ? linear : others).insert(p.source.name);
    if (!p.copy_in_files.empty()) others.insert(p.copy_in_files);
  }
  std::vector<TensorTransfer> result;
  for (const auto& [name, entry] : base.tensors()) {
    const StoredTensor& tensor = *entry.tensor;
    TensorTransfer transfer{.from = &tensor, .dtype = tensor.dtype().value()};
    // Tensors that are not weights, such as rotary frequencies in old files, keep their dtype.
    if (options.dtype && (linear.contains(name) || others.contains(name))) transfer.dtype = *options.dtype;
    if (linear.contains(name)) {
      const Shape shape{tensor.shape[0], tensor.shape[1]};
      transfer.coded = {name, shape, {}};
      transfer.format = options.format;
      transfer.format.weight_dtype = transfer.dtype;
      if (transfer.format.coding != WeightCoding::kInt8)
        transfer.coded->four = {.format = transfer.format, .shape = shape};
    }
    result.push_back(std::move(transfer));
  }
  return result;
}

// Reads tensors in pieces, quantises them and writes them.
class Quantiser {
 public:
  Quantiser(const SafetensorsFolder& base, SafetensorsFolderWriter& writer, int64_t total_bytes,
            const QuantiseOptions& options)
      : base_(base), writer_(writer), total_bytes_(total_bytes), options_(options), pool_(available_cpus()) {}

  void run(const TensorTransfer& transfer) { transfer.coded ? code(transfer) : copy(transfer); }

 private:
  void read(const TensorTransfer& transfer, int64_t first, int64_t count, DType dtype, void* into) {
    base_.read(transfer.from->name, first, count, dtype, into);
    done_bytes_ += count * size_of(transfer.from->dtype().value());
    if (options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  void copy(const TensorTransfer& transfer) {
    const int64_t elems = transfer.from->elems();
    resize(buffer_, std::min(elems, kCopiedElems) * size_of(transfer.dtype));
    for (int64_t first = 0; first < elems; first += kCopiedElems) {
      const int64_t count = std::min(kCopiedElems, elems - first);
      read(transfer, first, count, transfer.dtype, buffer_.data());
      writer_.append(transfer.from->name, buffer_.data(), transfer.dtype, count);
    }
  }

  void code(const TensorTransfer& transfer) {
    const QuantisedTensor& coded = *transfer.coded;
    float offset = 0;
    const auto append = [&](size_t part, const void* elements, int64_t count) {
      if (part == 0) return writer_.append(coded.name, elements, coded.four ? DType::kU8 : DType::kI8, count);
      const bool nested = coded.four && coded.four->format.double_quant;
      if (part == 1) return writer_.append(coded.absmax(), elements, nested ? DType::kU8 : DType::kF32, count);
      offset = static_cast<const float*>(elements)[count - 1];  // files have it in the quant_state
      writer_.append(coded.nested_absmax(), elements, DType::kF32, count - 1);
    };
    quantised_storage(transfer.format)
        ->encode(
            coded.name, {coded.shape, transfer.dtype},
            [&](int64_t first, int64_t count, float* into) { read(transfer, first, count, DType::kF32, into); }, append,
            pool_);
    if (coded.four) return write_state(coded, offset);
    constexpr uint8_t kByRows = 0;
    writer_.append(coded.weight_format(), &kByRows, DType::kU8, 1);
  }

  void write_state(const QuantisedTensor& coded, float offset) {
    QuantState state = *coded.four;
    state.nested_offset = offset;
    const auto& map = state.format.coding == WeightCoding::kNf4 ? kNf4 : kFp4;
    writer_.append(coded.quant_map(), map.data(), DType::kF32, std::ssize(map));
    if (state.format.double_quant)
      writer_.append(coded.nested_quant_map(), kDynamicSigned.data(), DType::kF32, std::ssize(kDynamicSigned));
    std::string text = quant_state_json(state);
    resize(text, state_bytes(*coded.four), ' ');
    writer_.append(coded.quant_state(), text.data(), DType::kU8, std::ssize(text));
  }

  const SafetensorsFolder& base_;
  SafetensorsFolderWriter& writer_;
  int64_t done_bytes_ = 0, total_bytes_ = 0;
  const QuantiseOptions& options_;
  ThreadPool pool_;
  std::vector<std::byte> buffer_;
};

constexpr int64_t kMaxConfigBytes = int64_t{1} << 24;

nlohmann::ordered_json read_config(const fs::path& model) {
  const fs::path path = model / "config.json";
  auto json =
      parse_json<nlohmann::ordered_json>(with_named_infinities(read_file(path, kMaxConfigBytes)), path.string());
  if (json.is_object() && json.contains("quantization_config") && !json["quantization_config"].is_null()) {
    throw input_error(path.string(),
                      "expected a model that is not quantised, got quantization_config; quantise the "
                      "model that it was made from");
  }
  return json;
}

std::string quantised_config(nlohmann::ordered_json json, std::optional<DType> model_dtype,
                             const QuantiseOptions& options) {
  QuantisationConfig config{.load_in_4bit = options.format.coding != WeightCoding::kInt8};
  if (config.load_in_4bit) {
    config.format = options.format;
    config.bnb_4bit_compute_dtype = torch_name_of(options.dtype.value_or(model_dtype.value_or(DType::kF32)));
  }
  json["quantization_config"] = quantisation_config_json(config);
  if (options.dtype) set_config_dtype(json, *options.dtype);
  return json_text(json, 2) + "\n";
}

}  // namespace

QuantiseReport quantise_model(const fs::path& model, const fs::path& out, const QuantiseOptions& options) {
  check_apart("--out", out, std::array{CommandInput{"MODEL", model}});
  check_replaceable("--out", out, kQuantizeCommand);
  const nlohmann::ordered_json config = read_config(model);
  const ModelPtr read = read_model(model);
  if (read->video())
    throw input_error(model.string(), "expected a model of text, got a video transformer; {}",
                      "use it as it is: nothing here reads a quantised one");
  if (const std::string& wrapper = text_of(*read, model.string()).wrapper; !wrapper.empty())
    throw input_error(model.string(), "expected a model of text that stands alone, got {}; {}", wrapper,
                      "use it as it is: load_in_4bit quantises its text model as it is loaded");
  const ParameterTable parameters = parameters_of(*read);
  const SafetensorsFolder base = open_model_weights(model, parameters);
  check_copies(parameters, base);
  const std::vector<TensorTransfer> transfers = tensor_transfers(parameters, base, options);

  QuantiseReport report;
  std::vector<TensorSpec> specs;
  for (const TensorTransfer& transfer : transfers) {
    report.quantised += transfer.coded ? 1 : 0;
    report.bytes_before += transfer.from->bytes;
    for (TensorSpec& spec : specs_of(transfer)) {
      report.bytes += spec.bytes();
      specs.push_back(std::move(spec));
    }
  }
  const std::vector<fs::path> others = files_to_copy(model, [](std::string_view) { return true; });
  AtomicFolder folder(out, kQuantizeCommand);
  SafetensorsFolderWriter writer(folder.path(), specs, options.max_shard_bytes);
  Quantiser quantiser(base, writer, report.bytes_before, options);
  for (const TensorTransfer& transfer : transfers) quantiser.run(transfer);
  writer.commit();
  copy_files(others, folder.path());
  write_file(folder.path() / "config.json", quantised_config(config, read->dtype(), options));
  folder.publish();
  return report;
}

}  // namespace spillway

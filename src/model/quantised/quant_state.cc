#include "model/quantised/quant_state.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/text.h"

namespace spillway {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

WeightCoding bitsandbytes_coding(const JsonField& field) {
  const std::optional<WeightCoding> coding = find_coding(field.string());
  if (coding && coding != WeightCoding::kInt8) return *coding;
  throw field.bad("nf4 or fp4", "use a model in one of these");
}

DType bitsandbytes_dtype(const JsonField& field) {
  const std::string& name = field.string();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    if (name == torch_name_of(dtype)) return dtype;
  throw field.bad("float32, bfloat16 or float16", "use a model in one of these");
}

Shape shape_of(const JsonField& field) {
  const std::vector<int64_t> dims = field.is_array() ? field.integers(1, kMaxExtent) : std::vector<int64_t>();
  if (dims.size() != 2) throw field.bad("two extents", "download the file again");
  return {dims[0], dims[1]};
}

// Returns true if the state has the keys of double quantisation. Throws InputError if only some of them are there.
bool is_nested(const JsonField& json) {
  constexpr std::array<std::string_view, 3> kKeys = {"nested_blocksize", "nested_dtype", "nested_offset"};
  int there = 0;
  for (const std::string_view key : kKeys) there += json[key].is_null() ? 0 : 1;
  if (there == 0) return false;
  for (const std::string_view key : kKeys)
    if (json[key].is_null()) throw json[key].bad("a value beside the other nested ones", "download the file again");
  return true;
}

}  // namespace

std::string_view torch_name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      report_bug(__FILE__, __LINE__, "torch_name_of", name_of(dtype));
  }
}

QuantState parse_quant_state(std::string_view text, std::string_view where) {
  const JsonDocument document(text, where);
  const JsonField json = document.root();
  QuantState state;
  state.format.coding = bitsandbytes_coding(json["quant_type"]);
  state.format.block_size = json["blocksize"].integer(0, std::numeric_limits<int32_t>::max());
  if (!is_four_bit_block_size(state.format.block_size))
    throw json["blocksize"].bad("a power of two from 32 to 4096", "use a model with such blocks");
  state.format.weight_dtype = bitsandbytes_dtype(json["dtype"]);
  state.shape = shape_of(json["shape"]);
  state.format.double_quant = is_nested(json);
  if (!state.format.double_quant) return state;
  if (json["nested_blocksize"].integer(0, std::numeric_limits<int32_t>::max()) != kNestedBlockSize)
    throw json["nested_blocksize"].bad("256", "use a model with such blocks");
  if (json["nested_dtype"].string() != torch_name_of(DType::kF32))
    throw json["nested_dtype"].bad("float32", "use a model with such scales");
  constexpr double kMax = std::numeric_limits<float>::max();
  state.nested_offset = static_cast<float>(json["nested_offset"].real(-kMax, kMax));
  return state;
}

std::string quant_state_json(const QuantState& state) {
  std::string text = fmt::format(R"({{"quant_type": "{}", "blocksize": {}, "dtype": "{}", "shape": [{}, {}])",
                                 name_of(state.format.coding), state.format.block_size,
                                 torch_name_of(state.format.weight_dtype), state.shape[0], state.shape[1]);
  if (state.format.double_quant) {
    text += fmt::format(R"(, "nested_blocksize": {}, "nested_dtype": "float32", "nested_offset": {})", kNestedBlockSize,
                        json_text(nlohmann::json(double{state.nested_offset})));
  }
  return text + "}";
}

}  // namespace spillway

// What bitsandbytes keeps beside the codes of a 4-bit weight: a JSON text, in a tensor of its bytes called
// `NAME.quant_state.bitsandbytes__nf4` (or `__fp4`).
#pragma once

#include <string>
#include <string_view>

#include "tensor/quantised_format.h"
#include "tensor/shape.h"

namespace spillway {

struct QuantState {
  QuantisedFormat format;
  Shape shape;              // [out_features, in_features]
  float nested_offset = 0;  // where the format is doubly quantised
};

// Parses and checks the text; `where` names the tensor in errors. Throws InputError for what is no JSON or malformed,
// and for what Spillway does not know: types, dtypes, block sizes, scales of another dtype.
[[nodiscard]] QuantState parse_quant_state(std::string_view json, std::string_view where);

// The text, as bitsandbytes writes it: its keys in its order.
[[nodiscard]] std::string quant_state_json(const QuantState& state);

// "float32", "bfloat16", "float16", as torch names them. REQUIRES: a floating dtype.
[[nodiscard]] std::string_view torch_name_of(DType dtype);

}  // namespace spillway

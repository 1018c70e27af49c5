// The quant_state that bitsandbytes stores beside the codes of a 4-bit weight: a JSON text in the bytes of a tensor
// named `NAME.quant_state.bitsandbytes__nf4` (or `__fp4`).
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

// Parses and checks the text; `where` names the tensor in errors. Throws InputError for text that is not JSON or
// malformed, and for unsupported types, dtypes, block sizes, and dtypes of scales.
[[nodiscard]] QuantState parse_quant_state(std::string_view json, std::string_view where);

// Returns the text as bitsandbytes writes it, with the same keys in the same order.
[[nodiscard]] std::string quant_state_json(const QuantState& state);

// Returns torch's name: "float32", "bfloat16", "float16". REQUIRES: a floating dtype.
[[nodiscard]] std::string_view torch_name_of(DType dtype);

}  // namespace spillway

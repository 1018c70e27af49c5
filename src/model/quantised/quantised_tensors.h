// The weights of a folder that bitsandbytes has quantised, as transformers saves them: NAME.weight with its codes, and
// beside it the tensors that decode them.
//
//   4 bits    NAME.weight (bytes, whatever dtype the header gives them), .weight.absmax, .weight.quant_map,
//             .weight.quant_state.bitsandbytes__nf4 or __fp4, and with double quantisation .weight.nested_absmax and
//             .weight.nested_quant_map
//   8 bits    NAME.weight (i8), NAME.SCB, and NAME.weight_format
//
// Errors: InputError that names the tensor. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "model/quantised/quant_state.h"

namespace spillway {

struct QuantisedTensor {
  std::string name;                // "model.layers.0.self_attn.q_proj.weight"
  Shape shape;                     // of the weight: [out_features, in_features]
  std::optional<QuantState> four;  // of 4 bits; empty: int8

  // The names of the tensors that hold the parts; the last two are for double quantisation.
  [[nodiscard]] std::string absmax() const;  // SCB of int8
  [[nodiscard]] std::string quant_map() const;
  [[nodiscard]] std::string quant_state() const;
  [[nodiscard]] std::string nested_absmax() const;
  [[nodiscard]] std::string nested_quant_map() const;
  // NAME.weight_format, for int8; files may lack it.
  [[nodiscard]] std::string weight_format() const;
  // All tensors that hold the weight, `name` first.
  [[nodiscard]] std::vector<std::string> tensors() const;
};

using QuantisedTensors = std::map<std::string, QuantisedTensor, std::less<>>;

// Returns the quantised tensors of the folder, by name; none for a folder of dense weights. Reads only headers and
// quant_states, and checks that every part is there, with the dtype and the shape that follow from the quant_state.
[[nodiscard]] QuantisedTensors find_quantised_tensors(const SafetensorsFolder& folder);

// Reads the tables of code values. Throws InputError for tables other than bitsandbytes' own; the last bits of a nested
// map may differ, as they do between versions of torch.
void check_quant_maps(const SafetensorsFolder& folder, const QuantisedTensor& tensor);

}  // namespace spillway

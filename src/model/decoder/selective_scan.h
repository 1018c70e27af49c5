// The branch of a layer that keeps a vector for each channel in place of attending to its tokens: Mamba's selective
// state space.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"
#include "model/decoder/short_convolution.h"
#include "ops/selective_scan/selective_scan.h"

namespace spillway {

// Borrows its references.
//
// Source: Mamba (Gu and Dao, 2023), and its norms in Jamba (Lieber et al., 2024).
class SelectiveScanPart {
 public:
  // Appends the scan.
  using Scan = std::function<ValueId(const ops::ScanOperands& operands)>;

  // `module` is the path of its module, "model.layers.0.mamba".
  SelectiveScanPart(DecoderParts& parts, const SelectiveScan& description, std::string module)
      : parts_(parts), description_(description), module_(std::move(module)) {}

  // Appends all but the last projection and returns what that takes, [T, channels], or kNone where `scan` returns it.
  [[nodiscard]] ValueId inner(ValueId x, const ShortConvolutionPart::Convolve& convolve, const Scan& scan) const;
  // Returns the last projection, whose product joins the stream.
  [[nodiscard]] LinearLayer out_projection() const;

 private:
  [[nodiscard]] Builder& builder() const { return parts_.layers().builder(); }
  [[nodiscard]] ValueId convolved(ValueId x, const ShortConvolutionPart::Convolve& convolve) const;
  [[nodiscard]] ValueId normalised(ValueId x, std::string_view name, int64_t width) const;
  [[nodiscard]] ops::ScanOperands operands(ValueId x) const;
  [[nodiscard]] ValueId rates() const;
  [[nodiscard]] ValueId with_input(ValueId y, ValueId x) const;

  DecoderParts& parts_;
  const SelectiveScan& description_;
  std::string module_;
};

}  // namespace spillway

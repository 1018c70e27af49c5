// The base of storages of weights that are codes in a model's files. In a graph the weights are as those of
// quantised_storage().
#pragma once

#include "model/storages/quantised.h"

namespace spillway {

class StoredCodes : public Storage {
 public:
  explicit StoredCodes(const QuantisedFormat& format) : format_(format), in_graph_(quantised_storage(format)) {}

  [[nodiscard]] const QuantisedFormat& format() const { return format_; }
  [[nodiscard]] std::string_view name() const override { return in_graph_->name(); }
  [[nodiscard]] std::vector<StoragePart> parts(const WeightSpec& weight) const override {
    return in_graph_->parts(weight);
  }
  [[nodiscard]] ValueId linear(Builder& builder, ValueId x, const WeightSpec& weight, std::span<const ValueId> parts,
                               const ops::LinearOptions& options) const override {
    return in_graph_->linear(builder, x, weight, parts, options);
  }
  [[nodiscard]] ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                       const WeightSpec& weight, std::span<const ValueId> parts,
                                       const ops::GroupedLinearOptions& options) const override {
    return in_graph_->grouped_linear(builder, x, offsets, pairs_per_token, weight, parts, options);
  }
  void encode(const std::string& name, const WeightSpec& weight, const Source& source, const Append& append,
              ThreadPool& pool) const override {
    in_graph_->encode(name, weight, source, append, pool);
  }
  void decode(const WeightSpec& weight, std::span<const TensorView> parts, int64_t first, int64_t rows,
              float* elements) const override {
    in_graph_->decode(weight, parts, first, rows, elements);
  }

 private:
  QuantisedFormat format_;
  StoragePtr in_graph_;
};

}  // namespace spillway

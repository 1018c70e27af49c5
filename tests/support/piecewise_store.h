// Values that are not in memory, as the loader sees them: every access passes through one small buffer.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "runtime/value_store.h"

namespace spillway::testing {

class PiecewiseStore final : public ValueStore {
 public:
  // The graph is borrowed.
  PiecewiseStore(const Graph& graph, int64_t piece_elems) : graph_(graph), piece_elems_(piece_elems) {}

  void read(ValueId id, const Visitor& use) override {
    visit(id, [&](const TensorView& piece, int64_t first, std::byte* at) {
      std::memcpy(piece.data, at, static_cast<size_t>(piece.bytes()));
      use(piece, first);
    });
  }
  void write(ValueId id, const Visitor& fill) override {
    CHECK(!is_in_files(id));
    visit(id, [&](const TensorView& piece, int64_t first, std::byte* at) {
      fill(piece, first);
      std::memcpy(at, piece.data, static_cast<size_t>(piece.bytes()));
    });
  }
  [[nodiscard]] std::unique_ptr<Writer> writer(ValueId id) override {
    CHECK(!is_in_files(id));
    return std::make_unique<PiecewiseWriter>(bytes(id), size_of(graph_.value(id).type.dtype));
  }
  [[nodiscard]] bool is_in_files(ValueId id) const override {
    return std::find(in_files.begin(), in_files.end(), id) != in_files.end();
  }

  // The bytes that were written to a value; garbage before.
  [[nodiscard]] std::vector<std::byte>& bytes(ValueId id) {
    std::vector<std::byte>& result = bytes_[id];
    result.resize(static_cast<size_t>(graph_.value(id).type.bytes()), std::byte{0xA5});
    return result;
  }

  std::vector<ValueId> in_files;

 private:
  class PiecewiseWriter final : public Writer {
   public:
    PiecewiseWriter(std::vector<std::byte>& bytes, int64_t elem_bytes) : bytes_(bytes), elem_bytes_(elem_bytes) {}
    ~PiecewiseWriter() override { CHECK(done_ == bytes_.size()); }
    void append(const void* elements, int64_t count) override {
      const auto size = static_cast<size_t>(count * elem_bytes_);
      REQUIRE(done_ + size <= bytes_.size());
      std::memcpy(bytes_.data() + done_, elements, size);
      done_ += size;
    }

   private:
    std::vector<std::byte>& bytes_;
    int64_t elem_bytes_;
    size_t done_ = 0;
  };

  template <typename Each>
  void visit(ValueId id, const Each& each) {
    const ValueType& type = graph_.value(id).type;
    for (int64_t first = 0; first < type.shape.elems(); first += piece_elems_) {
      const int64_t elems = std::min(piece_elems_, type.shape.elems() - first);
      buffer_.assign(static_cast<size_t>(elems * size_of(type.dtype)), std::byte{0x5A});
      each({buffer_.data(), type.dtype, {elems}}, first, bytes(id).data() + first * size_of(type.dtype));
    }
  }

  const Graph& graph_;
  int64_t piece_elems_;
  std::vector<std::byte> buffer_;
  std::map<ValueId, std::vector<std::byte>> bytes_;
};

}  // namespace spillway::testing

// Accesses the contents of persistent values, wherever a plan keeps them: state is loaded and saved one value at a
// time.
//
// Use it between two sections of a program only, from one thread. A visitor must not call read() or write() again,
// since values that are not in memory pass through one buffer. It may use a Writer, which has a buffer of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "graph/graph.h"
#include "tensor/view.h"

namespace spillway {

class ValueStore {
 public:
  // Receives a run of a value's elements: a flat view in the value's dtype, and the index of its first element. The
  // memory is the store's, and valid during this call.
  using Visitor = std::function<void(const TensorView& piece, int64_t first_elem)>;

  // Fills a value from its first element to its last, independently of other values that are being filled.
  class Writer {
   public:
    Writer() = default;
    Writer(Writer&&) = delete;
    virtual ~Writer() = default;

    // Adds the next elements, in the value's dtype. REQUIRES: the value has room for them. After the last of them the
    // whole content is in place.
    virtual void append(const void* elements, int64_t count) = 0;
  };

  virtual ~ValueStore() = default;

  // Calls `use` with the whole content, in order, in pieces of the store's choice: all at once if it is in memory.
  virtual void read(ValueId id, const Visitor& use) = 0;
  // Does the same with pieces that `fill` must write completely. REQUIRES: the value is not in the user's files.
  virtual void write(ValueId id, const Visitor& fill) = 0;
  // REQUIRES: the value is not in the user's files, and the store outlives the writer.
  [[nodiscard]] virtual std::unique_ptr<Writer> writer(ValueId id) = 0;
  // Returns true if the content is read in place in the model folder's files: there is nothing to load.
  [[nodiscard]] virtual bool is_in_files(ValueId) const { return false; }
};

}  // namespace spillway

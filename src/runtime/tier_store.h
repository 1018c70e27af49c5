// Accesses the contents of a loaded program's persistent values: memory directly, the disk and the user's files through
// a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/loaded_program.h"
#include "runtime/value_store.h"

namespace spillway {

class TierStore final : public ValueStore {
 public:
  explicit TierStore(LoadedProgram& loaded) : loaded_(loaded) {}

  // Both throw MachineError if a transfer fails.
  void read(ValueId id, const Visitor& use) override;
  void write(ValueId id, const Visitor& fill) override;
  [[nodiscard]] std::unique_ptr<Writer> writer(ValueId id) override;
  [[nodiscard]] bool is_in_files(ValueId id) const override { return loaded_.home_of(id).tier == Tier::kFiles; }

 private:
  class TierWriter;

  void for_each_piece(ValueId id, bool reads, const Visitor& visit);
  [[nodiscard]] bool is_in_host_memory(ValueId id) const;
  // Move [begin, begin + bytes) of a value that is not in host memory to its home, or from there. The buffer's length
  // is a multiple of kDiskAlignment.
  void store_piece(ValueId id, int64_t begin, int64_t bytes, std::byte* buffer);
  void load_piece(ValueId id, int64_t begin, int64_t bytes, std::byte* buffer);

  LoadedProgram& loaded_;
};

}  // namespace spillway

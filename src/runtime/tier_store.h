// The contents of a loaded program's persistent values: memory as it is, the disk and the user's files through a
// buffer.
#pragma once

#include "runtime/loaded_program.h"
#include "runtime/value_store.h"

namespace spillway {

class TierStore final : public ValueStore {
 public:
  explicit TierStore(LoadedProgram& loaded) : loaded_(loaded) {}

  // Throw MachineError where a transfer fails.
  void read(ValueId id, const Visitor& use) override;
  void write(ValueId id, const Visitor& fill) override;
  [[nodiscard]] bool is_in_files(ValueId id) const override { return loaded_.home_of(id).tier == Tier::kFiles; }

 private:
  void for_each_piece(ValueId id, bool reads, const Visitor& visit);

  LoadedProgram& loaded_;
};

}  // namespace spillway

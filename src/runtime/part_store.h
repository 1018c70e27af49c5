// Accesses the contents of persistent values of which each rank has a part, as if every rank had them whole.
//
// A rank keeps its part of what is written, which is the same on all ranks and needs no exchange. Reading gathers: all
// ranks call read() in the same order, or one of them leads and the others follow.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "dist/peers.h"
#include "runtime/value_store.h"

namespace spillway {

class PartStore final : public ValueStore {
 public:
  // `parts` are the cuts of the values that are parts; all others pass through to `own`, this rank's store. Borrows its
  // arguments.
  PartStore(ValueStore& own, const Graph& graph, const std::map<ValueId, Cut>& parts, Peers& peers)
      : own_(own), graph_(graph), parts_(parts), peers_(peers) {}

  // Gathers a part at once, which takes memory for it and for the whole. Throws MachineError on all ranks if one of
  // them cannot read its part.
  void read(ValueId id, const Visitor& use) override;
  void write(ValueId id, const Visitor& fill) override;
  [[nodiscard]] std::unique_ptr<Writer> writer(ValueId id) override;
  [[nodiscard]] bool is_in_files(ValueId id) const override { return own_.is_in_files(id); }

  // Runs `body`, which may read, on this rank, while all others are in follow(). REQUIRES: this is rank 0.
  template <typename Body>
  void lead(const Body& body) {
    leads_ = are_following_ = true;
    try {
      body();
    } catch (...) {
      end_lead();
      throw;
    }
    end_lead();
  }
  // Gives its parts to rank 0, until its body has ended, however that was.
  void follow();

 private:
  class PartWriter;

  // Returns the whole content of a part, which all ranks gather.
  std::vector<std::byte> gather(ValueId id, const Cut& cut);
  void end_lead();

  ValueStore& own_;
  const Graph& graph_;
  const std::map<ValueId, Cut>& parts_;
  Peers& peers_;
  bool leads_ = false;
  bool are_following_ = false;  // the others wait for a message of this rank
};

}  // namespace spillway

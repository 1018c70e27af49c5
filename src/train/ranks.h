// The ranks of a job between their collectives: they agree on what each of them did, so that all go on, or all end, at
// the same point of the run.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "dist/peers.h"

namespace spillway::train {

// All functions but the first few are collective: every rank calls them in the same order, from the thread that trains,
// while no program runs. With one rank each of them does what its body does, and costs nothing.
class Ranks {
 public:
  // Null: one rank. The peers are borrowed.
  explicit Ranks(Peers* peers = nullptr) : peers_(peers) {}

  [[nodiscard]] int rank() const { return peers_ != nullptr ? peers_->rank() : 0; }
  [[nodiscard]] int size() const { return peers_ != nullptr ? peers_->size() : 1; }
  [[nodiscard]] bool are_several() const { return peers_ != nullptr; }
  // Returns true on rank 0, which writes all files and speaks for all.
  [[nodiscard]] bool is_first() const { return rank() == 0; }
  // Returns the number of groups of `together` neighbouring ranks, which take turns with micro-batches.
  [[nodiscard]] int64_t groups_of(int64_t together) const { return size() / together; }
  // Returns how many ranks are on this rank's host.
  [[nodiscard]] int on_this_host() const;
  // Returns this rank's number among those.
  [[nodiscard]] int number_on_host() const;
  // Returns the largest size of groups of neighbouring ranks that are each on one host.
  [[nodiscard]] int neighbours_on_a_host() const;
  [[nodiscard]] Peers* peers() const { return peers_; }
  // Returns "rank 1 on HOST".
  [[nodiscard]] std::string name_of(int rank) const;
  // Returns the message of an error of this rank alone, which names the rank if that is not rank 0.
  [[nodiscard]] std::string own_message(std::string_view message) const;

  // Runs `body` on every rank, and returns when all have. If it throws on any, all of them throw an InputError or a
  // MachineError with the message of the first, which names the rank if that is not rank 0. Interrupted passes.
  template <typename Body>
  void agree(const Body& body) {
    if (!are_several()) return body();
    (void)exchange([&] {
      body();
      return std::string();
    });
  }
  // Does the same with `body` on rank 0 alone.
  template <typename Body>
  void first(const Body& body) {
    agree([&] {
      if (is_first()) body();
    });
  }
  // Runs `body` on every rank as agree() does, and returns the texts of all, by rank, until the next call.
  [[nodiscard]] std::span<const std::string> exchange(const std::function<std::string()>& body);
  // Returns rank 0's text.
  [[nodiscard]] std::string of_first(const std::function<std::string()>& body);

  // Deals out items [0, count), one to each group of `together` neighbouring ranks at a time, and hands the text that
  // own(i) has returned on the first rank of its group to take(i, text) on every rank, in the order of the items. A
  // rank without an item runs the last one once more, since bodies may exchange. REQUIRES: `take` calls nothing
  // collective.
  void deal(int64_t count, int64_t together, const std::function<std::string(int64_t)>& own,
            const std::function<void(int64_t, std::string_view)>& take);
  // Runs `own` on every rank, which returns a list of texts (TextWriter::add_list): those of its items of `count`, of
  // which item i is that of group i mod groups_of(together). Hands the texts of the first rank of each group to `take`
  // on every rank, in the order of the items. REQUIRES: as deal().
  void take_turns(int64_t count, int64_t together, const std::function<std::string()>& own,
                  const std::function<void(std::string_view)>& take);

  // Calls `is_done` on rank 0 until it returns true, with an exchange after each call, by which the ranks that wait see
  // that rank 0 lives. Rank 0 may so wait for longer than ddp_timeout, if each call returns within it.
  void wait_for_first(const std::function<bool()>& is_done);

  // Returns the seconds that this rank has spent in exchanges so far, waiting for the others most of them. Not
  // collective.
  [[nodiscard]] double met_seconds() const { return met_seconds_; }
  // Returns true if a signal has asked any rank to stop before the last of the calls above; with one rank, before now.
  // Not collective.
  [[nodiscard]] bool interrupted() const { return are_several() ? is_interrupted_ : interrupt_requested(); }
  // Returns true if all ranks have thrown this error together, and rank 0 says it. Not collective.
  [[nodiscard]] bool is_common(const std::exception& error) const { return error.what() == failure_; }

 private:
  void check_whole(std::span<const std::string> messages, const std::string& own) const;

  Peers* peers_;
  bool is_interrupted_ = false;
  double met_seconds_ = 0;
  std::vector<std::string> texts_;
  std::string failure_;  // the message of the last error of all ranks
};

}  // namespace spillway::train

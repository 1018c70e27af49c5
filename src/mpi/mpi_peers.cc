// A rank's peers by MPI. This is a library of its own, which dist/open_peers.cc loads in a job of several ranks: no
// other run loads MPI, nor is it needed to build the rest (docs/decisions/0032-ranks-by-mpi.md).
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "dist/fold_groups.h"
#include "dist/fold_in_order.h"
#include "dist/mpi_module.h"
#include "dist/rank_errors.h"
#include "mpi/message_transport.h"
#include "mpi/mpi_call.h"
#include "mpi/transport.h"
#include "mpi/window_transport.h"

namespace spillway {
namespace {

// Messages up to so many bytes travel in one piece.
constexpr size_t kShortMessage = 1024 - sizeof(uint64_t);

constexpr int kMachineFailed = 3;  // the exit status

std::timed_mutex calls;  // held during a call of MPI

class MpiPeers final : public Peers {
 public:
  // `shares_memory`: all ranks are on one host.
  MpiPeers(TransportFacts facts, MPI_Comm comm, bool shares_memory)
      : facts_(std::move(facts)),
        comm_(comm),
        transport_(shares_memory ? window_transport(comm, facts_) : message_transport(comm, facts_, calls)),
        out_(static_cast<size_t>(facts_.size)),
        in_bytes_(out_.size()),
        messages_(out_.size()) {}

  ~MpiPeers() override {
    // Where an error is on its way, the others may be anywhere: end_ranks() then ends them. The transport stays, as
    // freeing it would wait for them.
    if (failure_ || std::uncaught_exceptions() > 0) {
      static_cast<void>(transport_.release());
      return;
    }
    try {
      (void)exchange("");  // MPI_Finalize waits for all ranks without a limit
    } catch (const std::exception& error) {
      log_line(error.what());
      end_mpi(kMachineFailed);
    }
    transport_.reset();
    const std::lock_guard lock(calls);
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  [[nodiscard]] int rank() const override { return facts_.rank; }
  [[nodiscard]] int size() const override { return facts_.size; }
  [[nodiscard]] std::string_view host(int rank) const override { return nth(facts_.hosts, rank); }

  // In each group of ranks that have all parts, contributions go to the rank with the part. A sum goes from group to
  // group, as their contributions follow each other, and from the last to all.
  void fold(std::span<const float> whole, std::span<float> part, const Cut& cut, const FoldOrder& order) override {
    if (order.together > 1) return fold_by_groups(whole, part, {cut, order});
    const int group = cut.group_of(rank()), last_group = size() - cut.ranks, contributors = order.contributors;
    const int64_t step = transport_->max_piece_bytes() / static_cast<int64_t>(sizeof(float));
    for (int64_t at = 0; at < cut.part_elems; at += step) {
      // The elements of rank i's part that are in this piece.
      const auto piece = [&](int i) {
        const int64_t begin = std::min(at, cut.count(i)), end = std::min(at + step, cut.count(i));
        return whole.subspan(static_cast<size_t>(cut.begin(i) + begin), static_cast<size_t>(end - begin));
      };
      const size_t mine = piece(rank()).size();
      const auto bytes = static_cast<int64_t>(mine * sizeof(float));
      clear_sizes();
      for (int i = group; i < group + cut.ranks; ++i) {
        if (rank() < contributors) nth(out_, i) = std::as_bytes(piece(i));
        nth(in_bytes_, i) = i < contributors ? bytes : 0;
      }
      const auto in = tried([&] { return transport_->all_to_all(out_, in_bytes_); });
      contributions_.clear();
      for (int i = group; i < std::min(group + cut.ranks, contributors); ++i)
        contributions_.push_back(i == rank() ? piece(i).data() : reinterpret_cast<const float*>(nth(in, i)));
      if (last_group > 0) keep_contributions(mine);
      const std::span<float> sum = mine == 0 ? std::span<float>() : part.subspan(static_cast<size_t>(at), mine);
      for (int from = 0; from < last_group; from += cut.ranks) {
        if (from == group) fold_in_order(sum, contributions_);
        send_sum(sum, from + rank() - group, {from + cut.ranks + rank() - group, 1}, cut.ranks);
      }
      if (group == last_group) fold_in_order(sum, contributions_);
      if (last_group > 0) send_sum(sum, last_group + rank() - group, {rank() - group, last_group}, cut.ranks);
    }
  }

  void gather(std::span<const std::byte> part, std::span<std::byte> whole, const Cut& cut,
              int64_t elem_bytes) override {
    const int64_t step = transport_->max_common_bytes();
    const RankGroup group{cut.group_of(rank()), cut.ranks};
    for (int64_t at = 0; at < cut.part_elems * elem_bytes; at += step) {
      clear_sizes();
      for (int i = group.first; i < group.first + group.size; ++i) {
        const int64_t bytes = cut.count(i) * elem_bytes;
        nth(in_bytes_, i) = std::min(at + step, bytes) - std::min(at, bytes);
      }
      const auto mine = static_cast<size_t>(nth(in_bytes_, rank()));
      const Bytes piece = mine == 0 ? Bytes() : part.subspan(static_cast<size_t>(at), mine);
      const auto in = tried([&] { return transport_->all_gather(piece, in_bytes_, group); });
      for (int i = group.first; i < group.first + group.size; ++i) {
        const auto bytes = static_cast<size_t>(nth(in_bytes_, i));
        if (bytes > 0)
          std::memcpy(whole.data() + cut.begin(i) * elem_bytes + at, i == rank() ? piece.data() : nth(in, i), bytes);
      }
    }
  }

  void all_to_all(std::span<const std::byte> from, std::span<std::byte> to, int ranks) override {
    const int group = rank() - rank() % ranks;
    const int64_t piece = std::ssize(from) / ranks, step = transport_->max_piece_bytes();
    const auto place = [&](int i, int64_t at) { return (i - group) * piece + at; };
    if (piece > 0)
      std::memcpy(to.data() + place(rank(), 0), from.data() + place(rank(), 0), static_cast<size_t>(piece));
    for (int64_t at = 0; at < piece; at += step) {
      const int64_t bytes = std::min(step, piece - at);
      clear_sizes();
      for (int i = group; i < group + ranks; ++i) {
        nth(out_, i) = from.subspan(static_cast<size_t>(place(i, at)), static_cast<size_t>(bytes));
        nth(in_bytes_, i) = bytes;
      }
      const auto in = tried([&] { return transport_->all_to_all(out_, in_bytes_); });
      for (int i = group; i < group + ranks; ++i)
        if (i != rank()) std::memcpy(to.data() + place(i, at), nth(in, i), static_cast<size_t>(bytes));
    }
  }

  std::span<const std::string> exchange(std::string_view mine) override {
    // The first piece has the message's length and its beginning.
    std::array<std::byte, sizeof(uint64_t) + kShortMessage> first{};
    const uint64_t length = mine.size();
    std::memcpy(first.data(), &length, sizeof(length));
    mine.copy(reinterpret_cast<char*>(first.data() + sizeof(length)), kShortMessage);
    std::fill(in_bytes_.begin(), in_bytes_.end(), static_cast<int64_t>(first.size()));
    auto in = tried([&] { return transport_->all_gather(first, in_bytes_, everyone()); });
    std::vector<uint64_t> lengths(out_.size());
    uint64_t longest = 0;
    for (int i = 0; i < size(); ++i) {
      const std::byte* const from = i == rank() ? first.data() : nth(in, i);
      std::memcpy(&nth(lengths, i), from, sizeof(uint64_t));
      longest = std::max(longest, nth(lengths, i));
      nth(messages_, i)
          .assign(reinterpret_cast<const char*>(from + sizeof(uint64_t)),
                  std::min<size_t>(nth(lengths, i), kShortMessage));
    }
    const auto step = static_cast<size_t>(transport_->max_common_bytes());
    for (size_t at = kShortMessage; at < longest; at += step) {
      for (int i = 0; i < size(); ++i)
        nth(in_bytes_, i) = static_cast<int64_t>(std::min(at + step, nth(lengths, i)) - std::min(at, nth(lengths, i)));
      const std::string_view piece = mine.substr(std::min(at, mine.size()), step);
      in = tried([&] { return transport_->all_gather(std::as_bytes(std::span(piece)), in_bytes_, everyone()); });
      for (int i = 0; i < size(); ++i)
        nth(messages_, i)
            .append(i == rank() ? piece.data() : reinterpret_cast<const char*>(nth(in, i)),
                    static_cast<size_t>(nth(in_bytes_, i)));
    }
    return messages_;
  }

  [[noreturn]] void abort(int status) override {
    end_mpi(status);
    std::terminate();
  }

  // Another thread may be in a call of MPI; if it does not come out of it, the job has to end all the same.
  static void end_mpi(int status) {
    const std::unique_lock lock(calls, std::chrono::seconds(1));
    MPI_Abort(MPI_COMM_WORLD, status);
  }

 private:
  [[nodiscard]] RankGroup everyone() const { return {0, size()}; }

  void clear_sizes() {
    std::fill(out_.begin(), out_.end(), Bytes());
    std::fill(in_bytes_.begin(), in_bytes_.end(), 0);
  }

  // Ranks of a group give their contributions to a part to the one of them that adds these up, which gives the sum to
  // the ranks that have the part.
  void fold_by_groups(std::span<const float> whole, std::span<float> part, const FoldGroups& groups) {
    const Cut& cut = groups.cut;
    const int own = rank() % cut.ranks;
    const int64_t step = transport_->max_piece_bytes() / (groups.most_parts() * static_cast<int64_t>(sizeof(float)));
    for (int64_t at = 0; at < cut.part_elems; at += step) {
      const auto piece = [&](int i) {
        const int64_t begin = std::min(at, cut.count(i)), end = std::min(at + step, cut.count(i));
        return whole.subspan(static_cast<size_t>(cut.begin(i) + begin), static_cast<size_t>(end - begin));
      };
      const size_t mine = piece(own).size();
      add_up_in_group(groups, piece);
      clear_sizes();
      const float* own_sum = nullptr;
      size_t offset = 0;
      groups.for_parts_of(rank(), [&](int i) {
        const std::span<const float> sum(kept_.data() + offset, piece(i).size());
        offset += sum.size();
        if (i == own) own_sum = sum.data();
        if (groups.contributors(groups.of(rank())) == 0) return;
        for (int to = i; to < size(); to += cut.ranks) nth(out_, to) = std::as_bytes(sum);
      });
      for (int group = 0; group < groups.count(); ++group)
        nth(in_bytes_, groups.adder(group, own)) = static_cast<int64_t>(mine * sizeof(float));
      const auto in = tried([&] { return transport_->all_to_all(out_, in_bytes_); });
      contributions_.clear();
      for (int group = 0; group < groups.count(); ++group) {
        const int adder = groups.adder(group, own);
        contributions_.push_back(adder == rank() ? own_sum : reinterpret_cast<const float*>(nth(in, adder)));
      }
      if (mine > 0) fold_in_order(part.subspan(static_cast<size_t>(at), mine), contributions_);
    }
  }

  // Sets kept_ to the sums, one behind the other, of what this rank's group contributes to the parts that this rank
  // adds up; `piece` returns what there is of a part.
  template <typename Piece>
  void add_up_in_group(const FoldGroups& groups, const Piece& piece) {
    const int group = groups.of(rank()), first = groups.first(group), contributors = groups.contributors(group);
    size_t elems = 0;
    groups.for_parts_of(rank(), [&](int i) { elems += piece(i).size(); });
    clear_sizes();
    given_.resize(static_cast<size_t>(groups.order.together));
    for (int to = first; to < first + groups.order.together; ++to) {
      std::vector<float>& given = nth(given_, to - first);
      given.clear();
      if (to == rank() || rank() >= groups.order.contributors) continue;
      groups.for_parts_of(to, [&](int i) { given.insert(given.end(), piece(i).begin(), piece(i).end()); });
      nth(out_, to) = std::as_bytes(std::span<const float>(given));
    }
    for (int from = first; from < first + contributors; ++from)
      nth(in_bytes_, from) = static_cast<int64_t>(elems * sizeof(float));
    const auto in = tried([&] { return transport_->all_to_all(out_, in_bytes_); });
    kept_.assign(elems, 0);
    size_t offset = 0;
    groups.for_parts_of(rank(), [&](int i) {
      contributions_.clear();
      for (int from = first; from < first + contributors; ++from)
        contributions_.push_back(from == rank() ? piece(i).data()
                                                : reinterpret_cast<const float*>(nth(in, from)) + offset);
      fold_in_order(std::span(kept_).subspan(offset, piece(i).size()), contributions_);
      offset += piece(i).size();
    });
  }

  // Copies the contributions of other ranks, which are there until the next call of the transport.
  void keep_contributions(size_t elems) {
    kept_.resize(contributions_.size() * elems);
    for (size_t i = 0; i < contributions_.size(); ++i) {
      float* const to = kept_.data() + i * elems;
      std::copy_n(contributions_[i], elems, to);
      contributions_[i] = to;
    }
  }

  // Gives rank `from`'s sum to ranks first, first + stride, ... below first + size of `to`, into theirs.
  void send_sum(std::span<float> sum, int from, RankGroup to, int stride) {
    clear_sizes();
    const bool receives = rank() >= to.first && rank() < to.first + to.size && (rank() - to.first) % stride == 0;
    if (receives) nth(in_bytes_, from) = static_cast<int64_t>(sum.size_bytes());
    if (rank() == from)
      for (int i = to.first; i < to.first + to.size; i += stride) nth(out_, i) = std::as_bytes(sum);
    const auto in = tried([&] { return transport_->all_to_all(out_, in_bytes_); });
    if (receives && !sum.empty()) std::memcpy(sum.data(), nth(in, from), sum.size_bytes());
  }

  // Makes a call of the transport, unless one has failed: a later one would wait for ranks that are gone, and leave
  // them a message that they take for the answer to another one, should they come back.
  template <typename Call>
  std::span<const std::byte* const> tried(const Call& call) {
    if (failure_) throw MachineError(*failure_);
    try {
      return call();
    } catch (const std::exception& error) {
      failure_.emplace(error.what());
      throw;
    }
  }

  TransportFacts facts_;
  MPI_Comm comm_;
  std::unique_ptr<Transport> transport_;
  std::optional<MachineError> failure_;  // of the first call that failed
  std::vector<Bytes> out_;
  std::vector<int64_t> in_bytes_;
  std::vector<const float*> contributions_;
  std::vector<float> kept_;                // contributions while a sum goes from group to group, or the sums of a group
  std::vector<std::vector<float>> given_;  // to each rank of a group that adds up contributions
  std::vector<std::string> messages_;
};

// Returns true if all ranks are on this host.
bool is_one_host(MPI_Comm comm, int size) {
  MPI_Comm host = MPI_COMM_NULL;
  int here = 0;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_size(host, &here), "MPI_Comm_size");
  MPI_Comm_free(&host);
  return here == size;
}

// Returns the names of the hosts of all ranks.
std::vector<std::string> hosts_of(MPI_Comm comm, int size) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "the host's name");
  std::vector<char> names(static_cast<size_t>(size) * name.size());
  check_mpi(MPI_Allgather(name.data(), static_cast<int>(name.size()), MPI_CHAR, names.data(),
                          static_cast<int>(name.size()), MPI_CHAR, comm),
            "exchanging names of hosts");
  std::vector<std::string> hosts;
  for (size_t i = 0; i < names.size(); i += name.size()) hosts.emplace_back(&names[i]);
  return hosts;
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string_view version = text.data();
  return std::string(version.substr(0, version.find_first_of(",\n")));
}

// Ends the process where the ranks have not joined within the timeout, while it lives: MPI_Init waits without a limit
// for one that has ended before, or stands still.
class JoinDeadline {
 public:
  JoinDeadline(const Launch& launch, double seconds)
      : thread_([this, rank = launch.rank, ranks = launch.size, seconds] {
          const auto over = [this] { return is_over_; };
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), over)) return;
          // The launcher ends the others when rank 0 has failed.
          if (rank > 0 && changed_.wait_for(lock, std::chrono::seconds(3), over)) return;
          const MachineError error =
              machine_error("ddp_timeout",
                            "expected {} ranks to join each other within {:g} s, got fewer; see to those that have "
                            "ended or stand still, or raise ddp_timeout if they were only slow",
                            ranks, seconds);
          std::array<char, 256> host{};
          ::gethostname(host.data(), host.size() - 1);
          log_line(message_of_rank(rank, host.data(), error.what()));
          ::_exit(kMachineFailed);
        }) {}
  ~JoinDeadline() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  JoinDeadline(JoinDeadline&&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // last, as it uses what is above
};

Peers* open_mpi(const Launch& launch, const PeerOptions& options) {
  const JoinDeadline deadline(launch, options.timeout_seconds);
  int provided = 0;
  // Sections exchange on a thread of their own, and between them the thread that trains does: never two at a time.
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  TransportFacts facts;
  facts.timeout_seconds = options.timeout_seconds;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &facts.size), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &facts.rank), "MPI_Comm_rank");
  if (facts.size != launch.size || facts.rank != launch.rank)
    throw input_error(
        launch.launcher,
        "expected rank {} of {} as it says, got {} of {} from {}; start the ranks with its own mpirun, or "
        "srun --mpi=pmix",
        launch.rank, launch.size, facts.rank, facts.size, library_version());
  if (provided < MPI_THREAD_SERIALIZED)
    throw machine_error("MPI", "expected MPI_THREAD_SERIALIZED, got less from {}; install another MPI",
                        library_version());
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  facts.hosts = hosts_of(comm, facts.size);
  const bool shares_memory = options.shares_memory && is_one_host(comm, facts.size);
  return new MpiPeers(std::move(facts), comm, shares_memory);
}

}  // namespace
}  // namespace spillway

extern "C" spillway::Peers* spillway_open_mpi(const spillway::Launch& launch, const spillway::PeerOptions& options) {
  return spillway::open_mpi(launch, options);
}

extern "C" const char* spillway_mpi_version() {
  static const std::string kVersion = spillway::library_version();
  return kVersion.c_str();
}

extern "C" void spillway_end_mpi(int status) {
  int is_begun = 0, is_over = 0;
  MPI_Initialized(&is_begun);
  MPI_Finalized(&is_over);
  if (is_begun != 0 && is_over == 0) spillway::MpiPeers::end_mpi(status);
}

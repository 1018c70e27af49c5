// A rank's peers by MPI. This is a library of its own, which dist/open_peers.cc loads in a job of several ranks: no
// other run loads MPI, nor is it needed to build the rest (docs/decisions/0032-ranks-by-mpi.md).
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "dist/fold_in_order.h"
#include "dist/mpi_module.h"
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
    if (has_failed_ || std::uncaught_exceptions() > 0) {
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

  void fold(std::span<const float> whole, std::span<float> part, int contributors) override {
    const Cut cut = cut_of(static_cast<int64_t>(whole.size()), size());
    const int64_t step = transport_->max_piece_bytes() / static_cast<int64_t>(sizeof(float));
    for (int64_t at = 0; at < cut.part_elems; at += step) {
      // The elements of rank i's part that are in this piece.
      const auto piece = [&](int i) {
        const int64_t begin = std::min(at, cut.count(i)), end = std::min(at + step, cut.count(i));
        return whole.subspan(static_cast<size_t>(cut.begin(i) + begin), static_cast<size_t>(end - begin));
      };
      const auto mine = static_cast<int64_t>(piece(rank()).size());
      for (int i = 0; i < size(); ++i) {
        nth(out_, i) = rank() < contributors ? std::as_bytes(piece(i)) : Bytes();
        nth(in_bytes_, i) = i < contributors ? mine * static_cast<int64_t>(sizeof(float)) : 0;
      }
      const auto in = tried([&] { return transport_->all_to_all(out_, in_bytes_); });
      contributions_.clear();
      for (int i = 0; i < contributors; ++i)
        contributions_.push_back(i == rank() ? piece(i).data() : reinterpret_cast<const float*>(nth(in, i)));
      if (mine > 0) fold_in_order(part.subspan(static_cast<size_t>(at), static_cast<size_t>(mine)), contributions_);
    }
  }

  void gather(std::span<const std::byte> part, std::span<std::byte> whole, const Cut& cut,
              int64_t elem_bytes) override {
    const int64_t step = transport_->max_common_bytes();
    for (int64_t at = 0; at < cut.part_elems * elem_bytes; at += step) {
      for (int i = 0; i < size(); ++i) {
        const int64_t bytes = cut.count(i) * elem_bytes;
        nth(in_bytes_, i) = std::min(at + step, bytes) - std::min(at, bytes);
      }
      const auto mine = static_cast<size_t>(nth(in_bytes_, rank()));
      const Bytes piece = mine == 0 ? Bytes() : part.subspan(static_cast<size_t>(at), mine);
      const auto in = tried([&] { return transport_->all_gather(piece, in_bytes_); });
      for (int i = 0; i < size(); ++i) {
        const auto bytes = static_cast<size_t>(nth(in_bytes_, i));
        if (bytes > 0)
          std::memcpy(whole.data() + cut.begin(i) * elem_bytes + at, i == rank() ? piece.data() : nth(in, i), bytes);
      }
    }
  }

  std::span<const std::string> exchange(std::string_view mine) override {
    // The first piece has the message's length and its beginning.
    std::array<std::byte, sizeof(uint64_t) + kShortMessage> first{};
    const uint64_t length = mine.size();
    std::memcpy(first.data(), &length, sizeof(length));
    mine.copy(reinterpret_cast<char*>(first.data() + sizeof(length)), kShortMessage);
    std::fill(in_bytes_.begin(), in_bytes_.end(), static_cast<int64_t>(first.size()));
    auto in = tried([&] { return transport_->all_gather(first, in_bytes_); });
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
      in = tried([&] { return transport_->all_gather(std::as_bytes(std::span(piece)), in_bytes_); });
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
  template <typename Call>
  std::span<const std::byte* const> tried(const Call& call) {
    try {
      return call();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
  }

  TransportFacts facts_;
  MPI_Comm comm_;
  std::unique_ptr<Transport> transport_;
  bool has_failed_ = false;
  std::vector<Bytes> out_;
  std::vector<int64_t> in_bytes_;
  std::vector<const float*> contributions_;
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

Peers* open_mpi(const Launch& launch, const PeerOptions& options) {
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

extern "C" void spillway_end_mpi(int status) {
  int is_begun = 0, is_over = 0;
  MPI_Initialized(&is_begun);
  MPI_Finalized(&is_over);
  if (is_begun != 0 && is_over == 0) spillway::MpiPeers::end_mpi(status);
}

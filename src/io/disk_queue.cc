#include "io/disk_queue.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"

namespace spillway {
namespace {

// The most times that a block may come back without progress.
constexpr int32_t kMaxAttempts = 100;

int64_t align_down(int64_t value) { return value / kDiskAlignment * kDiskAlignment; }
bool is_aligned(int64_t value) { return value % kDiskAlignment == 0; }
// Returns the offset of an address in its page.
int64_t page_offset(const std::byte* memory) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % kDiskAlignment);
}

// Returns the advice about a failed transfer.
std::string_view remedy(int error) {
  if (error == ENOSPC || error == EDQUOT)
    return "free some space or name another folder, then go on from the last checkpoint";
  if (error == ENOMEM) return "free some memory, then go on from the last checkpoint";
  return "check the disk (dmesg), then go on from the last checkpoint";
}

}  // namespace

DiskQueue::DiskQueue(Scratch* scratch, const DiskQueueOptions& options)
    : scratch_(scratch),
      block_bytes_(options.block_bytes),
      staging_(options.staging),
      requests_(make_vector<Request>(options.requests)),
      blocks_(make_vector<Block>(options.depth)) {
  SPILLWAY_CHECK(options.requests > 0 && options.depth > 0, "{} requests, depth {}", options.requests, options.depth);
  SPILLWAY_CHECK(block_bytes_ > 0 && is_aligned(block_bytes_), "blocks of {} bytes", block_bytes_);
  SPILLWAY_CHECK(!scratch || scratch->stripe_bytes() % block_bytes_ == 0, "blocks of {} bytes in stripes of {}",
                 block_bytes_, scratch->stripe_bytes());
  SPILLWAY_CHECK(
      staging_.empty() || (std::ssize(staging_) >= staging_bytes(options) && page_offset(staging_.data()) == 0),
      "{} bytes of staging memory at page offset {}", staging_.size(), page_offset(staging_.data()));
  DiskBackendSetup setup{.depth = options.depth, .memory = options.memory};
  if (scratch) {
    for (const Scratch::File& file : scratch->files()) {
      files_.push_back({.path = file.folder, .is_direct = file.is_direct});
      setup.files.push_back(file.fd.get());
    }
  }
  for (const std::filesystem::path& path : options.read_files) {
    files_.push_back(open_model_file(path));
    setup.files.push_back(files_.back().fd.get());
  }
  if (!staging_.empty()) setup.memory.push_back(staging_);
  for (int32_t slot = options.depth - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  backend_ = options.backend(setup);
  SPILLWAY_CHECK(backend_, "no back end");
}

DiskQueue::~DiskQueue() { abandon(); }

// Opens the file as ReadFile does, which knows the possible errors; then again past the page cache, if possible.
DiskQueue::File DiskQueue::open_model_file(const std::filesystem::path& path) const {
  const ReadFile checked(path);
  File file{.path = path, .bytes = checked.size()};
  if (!staging_.empty()) file.fd = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  file.is_direct = file.fd.get() >= 0;
  if (!file.is_direct) file.fd = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd.get() >= 0) return file;
  throw machine_error(path.string(), "expected a file that can be opened twice, got \"{}\"; check the disk",
                      std::system_category().message(errno));
}

DiskQueue::Ticket DiskQueue::write_scratch(int64_t offset, std::span<const std::byte> from) {
  check_scratch_range(offset, from);
  // The sums are those of the caller's bytes now, whatever happens to them later.
  if (BlockChecksums* sums = scratch_->checksums()) sums->note(offset, from);
  return submit({.direction = DiskDirection::kWrite,
                 .offset = offset,
                 .memory = const_cast<std::byte*>(from.data()),
                 .bytes = std::ssize(from)});
}

DiskQueue::Ticket DiskQueue::read_scratch(int64_t offset, std::span<std::byte> into) {
  check_scratch_range(offset, into);
  return submit({.offset = offset, .memory = into.data(), .bytes = std::ssize(into)});
}

DiskQueue::Ticket DiskQueue::read_file(int32_t file, int64_t offset, std::span<std::byte> into) {
  const int32_t index = file + scratch_files();
  SPILLWAY_CHECK(file >= 0 && index < std::ssize(files_), "file {} of {}", file, std::ssize(files_) - scratch_files());
  const int64_t bytes = std::ssize(into), file_bytes = nth(files_, index).bytes;
  SPILLWAY_CHECK(offset >= 0 && bytes <= file_bytes - offset, "{} bytes at {} of {}", bytes, offset, file_bytes);
  return submit({.file = file, .offset = offset, .memory = into.data(), .bytes = bytes});
}

void DiskQueue::wait(Ticket ticket) {
  throw_if_failed();
  SPILLWAY_CHECK(ticket >= 0 && ticket < next_, "ticket {} of {}", ticket, next_);
  while (!is_finished(ticket)) advance(DiskBackend::Wait::kYes);
}

void DiskQueue::drain() {
  throw_if_failed();
  for (Ticket ticket = std::max<Ticket>(0, next_ - std::ssize(requests_)); ticket < next_; ++ticket) wait(ticket);
}

void DiskQueue::check_scratch_range(int64_t offset, std::span<const std::byte> memory) const {
  const int64_t bytes = std::ssize(memory);
  SPILLWAY_CHECK(scratch_, "no scratch space");
  SPILLWAY_CHECK(is_aligned(offset) && is_aligned(bytes) && page_offset(memory.data()) == 0,
                 "{} bytes at {}, memory at page offset {}", bytes, offset, page_offset(memory.data()));
  SPILLWAY_CHECK(offset >= 0 && bytes <= scratch_->bytes() - offset, "{} bytes at {} of {}", bytes, offset,
                 scratch_->bytes());
}

void DiskQueue::throw_if_failed() const {
  if (!error_.empty()) throw MachineError(error_);
}

DiskQueue::Ticket DiskQueue::submit(const Request& request) {
  throw_if_failed();
  const Ticket oldest = next_ - std::ssize(requests_);
  while (!is_finished(oldest)) advance(DiskBackend::Wait::kYes);
  request_of(next_) = request;
  const Ticket ticket = next_++;
  advance(DiskBackend::Wait::kNo);
  return ticket;
}

// A ticket whose place another has taken was finished before that.
bool DiskQueue::is_finished(Ticket ticket) const {
  if (ticket < next_ - std::ssize(requests_) || ticket < 0) return true;
  const Request& request = nth(requests_, ticket % std::ssize(requests_));
  return request.started_bytes == request.bytes && request.in_flight == 0;
}

DiskQueue::Request& DiskQueue::request_of(Ticket ticket) { return nth(requests_, ticket % std::ssize(requests_)); }

void DiskQueue::advance(DiskBackend::Wait wait) {
  start_blocks();
  if (in_flight() == 0) return;
  while (const auto completion = backend_->finish(wait)) {
    settle(*completion);
    start_blocks();
    if (in_flight() == 0) return;
    wait = DiskBackend::Wait::kNo;
  }
}

void DiskQueue::start_blocks() {
  while (starting_ < next_ && !free_slots_.empty()) {
    Request& request = request_of(starting_);
    if (request.started_bytes == request.bytes) {
      ++starting_;
      continue;
    }
    const int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    Block& block = nth(blocks_, slot);
    block = request.file < 0 ? scratch_block(request) : file_block(request, slot);
    block.ticket = starting_;
    request.started_bytes += block.wanted_bytes;
    ++request.in_flight;
    backend_->start(slot, block.rest);
  }
}

DiskQueue::Block DiskQueue::scratch_block(const Request& request) const {
  const int64_t at = request.offset + request.started_bytes;
  const int64_t bytes = std::min(request.bytes - request.started_bytes, block_bytes_ - at % block_bytes_);
  const Scratch::Place place = scratch_->place_of(at);
  return {.rest = {request.direction, place.file, place.offset, request.memory + request.started_bytes, bytes},
          .needed_bytes = bytes,
          .wanted_bytes = bytes};
}

DiskQueue::Block DiskQueue::file_block(const Request& request, int32_t slot) const {
  const int32_t file = request.file + scratch_files();
  const int64_t at = request.offset + request.started_bytes;
  std::byte* const memory = request.memory + request.started_bytes;
  int64_t bytes = std::min(request.bytes - request.started_bytes, block_bytes_ - at % block_bytes_);
  const auto in_place = [&] {
    return Block{.rest = {DiskDirection::kRead, file, at, memory, bytes}, .needed_bytes = bytes, .wanted_bytes = bytes};
  };
  if (!nth(files_, file).is_direct) return in_place();

  const int64_t head = at % kDiskAlignment;
  if (page_offset(memory) == head) {
    if (head == 0 && bytes >= kDiskAlignment) {
      bytes = align_down(bytes);
      return in_place();
    }
    // Only up to the next page: the rest can go straight into place.
    bytes = std::min(bytes, kDiskAlignment - head);
  }
  // The pages around the wanted bytes. They are within one block of the file, so that they fit the slot's memory.
  std::byte* const staged = staging_.data() + slot * block_bytes_;
  return {.rest = {DiskDirection::kRead, file, at - head, staged, align_up(head + bytes, kDiskAlignment)},
          .needed_bytes = head + bytes,
          .target = memory,
          .staged = staged + head,
          .wanted_bytes = bytes};
}

void DiskQueue::settle(const DiskBackend::Completion& completion) {
  Block& block = nth(blocks_, completion.slot);
  const int64_t moved = completion.result;
  if (moved < block.needed_bytes) {
    // Direct transfers go on at a multiple of the alignment.
    const bool is_direct = nth(files_, block.rest.file).is_direct;
    const int64_t progress = moved <= 0 ? 0 : is_direct ? align_down(moved) : moved;
    const bool is_interrupted = moved == -EINTR || moved == -EAGAIN || (moved > 0 && progress == 0);
    block.attempts = is_interrupted ? block.attempts + 1 : 0;
    if ((moved <= 0 && !is_interrupted) || block.attempts > kMaxAttempts) {
      const std::string error = describe(block.rest, moved);
      release(completion.slot);
      fail(error);
    }
    block.rest.offset += progress;
    block.rest.memory += progress;
    block.rest.bytes -= progress;
    block.needed_bytes -= progress;
    backend_->start(completion.slot, block.rest);
    return;
  }
  if (block.target) copy_memory(block.target, block.staged, block.wanted_bytes);
  const Ticket ticket = block.ticket;
  release(completion.slot);
  if (is_finished(ticket)) verify(request_of(ticket));
}

void DiskQueue::release(int32_t slot) {
  --request_of(nth(blocks_, slot).ticket).in_flight;
  free_slots_.push_back(slot);
}

void DiskQueue::verify(const Request& request) {
  if (request.file >= 0 || request.direction != DiskDirection::kRead || !scratch_->checksums()) return;
  const auto mismatch = scratch_->checksums()->compare(request.offset, span_of(request.memory, request.bytes));
  if (!mismatch) return;
  const Scratch::Place place = scratch_->place_of(mismatch->offset);
  fail(fmt::format(
      "[{}] expected the bytes that were written at offset {} of the scratch file (block {} of the disk tier, sum "
      "{:08x}), got others (sum {:08x}); check the disk and the memory, then go on from the last checkpoint",
      nth(files_, place.file).path.string(), place.offset, mismatch->offset / BlockChecksums::kBlockBytes,
      mismatch->expected, mismatch->got));
}

// Describes a block that came back with `moved`, which is no progress.
std::string DiskQueue::describe(const DiskBlock& block, int64_t moved) const {
  const bool is_read = block.direction == DiskDirection::kRead;
  const int error = moved < 0 ? static_cast<int>(-moved) : is_read ? 0 : ENOSPC;
  const std::string got = error != 0  ? std::system_category().message(error)
                          : moved > 0 ? "a few bytes again and again"
                                      : "the end of the file";
  return fmt::format("[{}] expected to {} {} bytes at offset {} of the {}, got \"{}\"; {}",
                     nth(files_, block.file).path.string(), is_read ? "read" : "write", block.bytes, block.offset,
                     block.file < scratch_files() ? "scratch file" : "file", got, remedy(error));
}

void DiskQueue::fail(std::string error) {
  error_ = std::move(error);
  abandon();
  throw MachineError(error_);
}

// Waits for blocks in flight, whatever their results: afterwards no memory is written any more.
void DiskQueue::abandon() {
  while (in_flight() > 0) {
    const auto completion = backend_->finish(DiskBackend::Wait::kYes);
    if (completion) release(completion->slot);
  }
}

}  // namespace spillway

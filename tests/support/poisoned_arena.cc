#include "tests/support/poisoned_arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/math.h"

namespace spillway::ops::testing {
namespace {

// More than the rows of a kernel's largest tile, in the shapes of these tests.
constexpr int64_t kGapBytes = 64 << 10;
constexpr int64_t kAlignment = 256;
constexpr std::byte kNan{0xFF};  // in every float type, when repeated

const std::vector<std::byte>& all_nan() {
  static const std::vector<std::byte> bytes(kGapBytes + kAlignment, kNan);
  return bytes;
}

}  // namespace

PoisonedArena::PoisonedArena(std::byte* memory, int64_t bytes, Copy copy)
    : memory_(memory), size_(bytes), copy_(std::move(copy)) {
  add_gap(kGapBytes);
}

void PoisonedArena::add_gap(int64_t end) {
  SPILLWAY_CHECK(end <= size_, "{} bytes of tests' tensors", end);
  gaps_.push_back({memory_ + used_, end - used_});
  while (used_ < end) {
    const int64_t bytes = std::min(end - used_, std::ssize(all_nan()));
    copy_(memory_ + used_, all_nan().data(), bytes);
    used_ += bytes;
  }
}

void PoisonedArena::run(const KernelArgs& args, int64_t workspace_bytes,
                        const std::function<void(const KernelArgs&)>& kernel) {
  const std::vector<TensorView> outputs = take(args.outputs), inputs = take(args.inputs);
  kernel({.inputs = inputs,
          .outputs = outputs,
          .workspace = workspace_bytes > 0 ? take_poisoned(workspace_bytes) : nullptr,
          .attributes = args.attributes,
          .threads = args.threads});
  bring_back();
}

std::vector<TensorView> PoisonedArena::take(std::span<const TensorView> views) {
  std::vector<TensorView> result(views.begin(), views.end());
  for (TensorView& view : result) view.data = take(view.as<std::byte>(), view.bytes());
  return result;
}

std::byte* PoisonedArena::take(std::byte* host, int64_t bytes) {
  if (host == nullptr) return nullptr;
  if (const auto known = buffers_.find(host); known != buffers_.end()) return known->second.place;
  const Buffer buffer{memory_ + used_, bytes};
  SPILLWAY_CHECK(used_ + bytes <= size_, "{} bytes of tests' tensors", used_ + bytes);
  copy_(buffer.place, host, bytes);
  used_ += bytes;
  add_gap(align_up(used_, kAlignment) + kGapBytes);
  buffers_[host] = buffer;
  return buffer.place;
}

std::byte* PoisonedArena::take_poisoned(int64_t bytes) {
  std::byte* const place = memory_ + used_;
  add_gap(used_ + bytes);
  gaps_.pop_back();  // the kernel may write there
  add_gap(align_up(used_, kAlignment) + kGapBytes);
  return place;
}

void PoisonedArena::bring_back() {
  for (const auto& [host, buffer] : buffers_) copy_(host, buffer.place, buffer.bytes);
  std::vector<std::byte> now(all_nan().size());
  for (const Buffer& gap : gaps_) {
    copy_(now.data(), gap.place, gap.bytes);
    const bool is_whole = std::equal(now.data(), now.data() + gap.bytes, all_nan().data());
    CHECK_MESSAGE(is_whole, "a kernel has written outside of its buffers");
  }
}

}  // namespace spillway::ops::testing

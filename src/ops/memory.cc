#include "ops/memory.h"

#include "base/error.h"
#include "base/sizes.h"

namespace spillway::ops {
namespace {

constexpr int64_t kGrainBytes = int64_t{1} << 16;

}  // namespace

void copy_tensor(const TensorView& from, const TensorView& to, ThreadPool& threads) {
  SPILLWAY_CHECK(from.bytes() == to.bytes(), "{} bytes to {}", from.bytes(), to.bytes());
  if (from.data == to.data) return;
  threads.parallel_for(to.bytes(), kGrainBytes, [&](int64_t begin, int64_t end, int) {
    copy_memory(to.as<std::byte>() + begin, from.as<std::byte>() + begin, end - begin);
  });
}

void zero_tensor(const TensorView& tensor, ThreadPool& threads) {
  threads.parallel_for(tensor.bytes(), kGrainBytes, [&](int64_t begin, int64_t end, int) {
    fill_memory(tensor.as<std::byte>() + begin, 0, end - begin);
  });
}

}  // namespace spillway::ops

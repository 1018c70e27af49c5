// Copies rows by their index.
#pragma once

#include "backend/cuda/launch.cuh"

namespace spillway::ops {

// Uses a block for each row that is written; a row is `packets` packets.
template <typename Packet>
__global__ void gather_kernel(const Packet* from, const int32_t* index, Packet* to, int64_t from_rows,
                              int64_t packets) {
  const int64_t row = index[blockIdx.x];
  cuda::require(row >= 0 && row < from_rows);
  const Packet* source = from + row * packets;
  Packet* target = to + blockIdx.x * packets;
  for (int64_t i = threadIdx.x; i < packets; i += blockDim.x) target[i] = source[i];
}

// Copies row index[i] of `from` to row i of `to`. REQUIRES: rows of equal bytes.
inline void gather(const TensorView& from, const TensorView& index, const TensorView& to, void* stream) {
  const int64_t row_bytes = from.shape[1] * size_of(from.dtype);
  const auto gather_packets = [&]<typename Packet>(Packet*) {
    const int64_t packets = row_bytes / static_cast<int64_t>(sizeof(Packet));
    cuda::launch(gather_kernel<Packet>, {to.shape[0], cuda::threads_for(packets)}, stream, from.as<Packet>(),
                 index.as<int32_t>(), to.as<Packet>(), from.shape[0], packets);
  };
  if (row_bytes % static_cast<int64_t>(sizeof(uint4)) == 0) {  // tensors begin at multiples of it
    gather_packets(static_cast<uint4*>(nullptr));
  } else {
    gather_packets(static_cast<std::byte*>(nullptr));
  }
}

}  // namespace spillway::ops

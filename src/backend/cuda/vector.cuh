// Handles elements as f32 in registers, moved 16 bytes at a time.
#pragma once

#include <algorithm>

#include "backend/cuda/kernel.cuh"

namespace spillway::cuda {

// The elements [begin, begin + count) of an array, 0 < count <= N; fewer than N at its end alone.
template <int N>
struct Span {
  int64_t begin;
  int count;
};

// Returns the part of [0, elems) from `begin`. REQUIRES: begin < elems.
template <int N>
__device__ Span<N> span_at(int64_t begin, int64_t elems) {
  return {begin, static_cast<int>(std::min<int64_t>(N, elems - begin))};
}

template <int N>
struct Floats {
  float at[N];
  __device__ float& operator[](int i) { return at[i]; }
  __device__ float operator[](int i) const { return at[i]; }
};

// The number of elements that make 16 bytes of the narrowest type.
template <typename... T>
inline constexpr int kVector = 16 / static_cast<int>(std::min({sizeof(T)...}));

// The elements that one instruction moves.
template <typename T, int N>
struct alignas(N * sizeof(T)) Packet {
  T at[N];
};
template <typename T, int N>
inline constexpr int kPacketElems = std::min(N, 16 / static_cast<int>(sizeof(T)));

// Returns true if vectors of N elements can be moved in packets from here on.
template <int N, typename T>
__device__ bool is_aligned(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Packet<T, kPacketElems<T, N>>) == 0;
}

// Loads a whole vector, without a branch. REQUIRES: is_aligned<N>(from).
template <int N, typename T>
__device__ Floats<N> load_aligned(const T* from) {
  constexpr int kElems = kPacketElems<T, N>;
  const auto* packets = reinterpret_cast<const Packet<T, kElems>*>(from);
  Floats<N> result;
#pragma unroll
  for (int p = 0; p < N / kElems; ++p) {
    const Packet<T, kElems> packet = packets[p];
#pragma unroll
    for (int i = 0; i < kElems; ++i) result[p * kElems + i] = to_float(packet.at[i]);
  }
  return result;
}

// Loads a vector, with zeros past the count. Any alignment works; that of the packets is fast.
template <int N, typename T>
__device__ Floats<N> load(const T* data, Span<N> span) {
  const T* from = data + span.begin;
  if (span.count == N && is_aligned<N>(from)) return load_aligned<N>(from);
  Floats<N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = i < span.count ? to_float(from[i]) : 0.0f;
  return result;
}

// Stores a vector, rounded to T once; writes nothing past the count.
template <int N, typename T>
__device__ void store(const Floats<N>& values, T* data, Span<N> span) {
  constexpr int kElems = kPacketElems<T, N>;
  T* to = data + span.begin;
  if (span.count == N && is_aligned<N>(to)) {
#pragma unroll
    for (int p = 0; p < N / kElems; ++p) {
      Packet<T, kElems> packet;
#pragma unroll
      for (int i = 0; i < kElems; ++i) packet.at[i] = from_float<T>(values[p * kElems + i]);
      reinterpret_cast<Packet<T, kElems>*>(to)[p] = packet;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < span.count) to[i] = from_float<T>(values[i]);
    }
  }
}

// Calls f(span) for those vectors of [0, elems) that fall to worker `index` of `count`: every count-th.
template <int N, typename Function>
__device__ void for_each_vector(int64_t elems, int index, int count, const Function& f) {
  for (int64_t begin = int64_t{N} * index; begin < elems; begin += int64_t{N} * count) f(span_at<N>(begin, elems));
}

}  // namespace spillway::cuda

// Runs plain loops with the vectors of AVX2, where those of the CPU's baseline are several times slower than memory.
#pragma once

namespace spillway {

#if defined(__x86_64__)
template <typename Loop>
[[gnu::target("avx2")]] auto run_with_avx2(const Loop& loop) {
  return loop();
}
#endif

// Returns loop(), compiled for AVX2, too, and run so where the CPU has it: bits are the same, since no sum is formed in
// another order and nothing is contracted. REQUIRES: `loop` is a lambda that is SPILLWAY_INLINE, as is what it calls.
template <typename Loop>
auto with_wide_vectors(const Loop& loop) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") > 0;
  if (has_avx2) return run_with_avx2(loop);
#endif
  return loop();
}

#define SPILLWAY_INLINE __attribute__((always_inline))

}  // namespace spillway

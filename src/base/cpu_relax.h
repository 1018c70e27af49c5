// What a thread says to its core while it spins: that another one may have the pipeline, and that it may save power.
#pragma once

namespace spillway {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace spillway

// Tells the core that this thread spins: another thread may have the pipeline, and the core may save power.
#pragma once

namespace spillway {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace spillway

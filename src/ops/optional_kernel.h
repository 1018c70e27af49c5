// The declaration of a CUDA kernel in an operation's description.
#pragma once

// `SPILLWAY_OPTIONAL_KERNEL void rope_cuda(const KernelArgs& args);` declares a kernel whose address is null in a
// program without it, so that one object of a description serves the CPU and emulated kernels (ops_emulated_test).
#ifdef SPILLWAY_CUDA
#define SPILLWAY_OPTIONAL_KERNEL
#else
#define SPILLWAY_OPTIONAL_KERNEL [[gnu::weak]]
#endif

// Tests that cuDNN takes the attention that we describe to it. Needs cuDNN, as a build with CUDA does; some of its
// engines need the driver, too.
#include "ops/attention/cuda/shared.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "backend/cuda/cudnn.h"
#include "ops/attention/cuda/cudnn_attention.h"
#include "tests/support/require_gpu.h"

using namespace spillway;
using namespace spillway::cuda;
using namespace spillway::testing;

namespace {

// The properties of a GPU that cuDNN 9.19 needs, with an H200's public figures.
constexpr std::string_view kH200 = R"({
  "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "multiProcessorCount": 132,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "warpSize": 32, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "totalGlobalMem": 150754820096, "l2CacheSize": 62914560, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1
})";

std::pair<int, int> major_minor(const std::string& version) {
  return {std::stoi(version), std::stoi(version.substr(version.find('.') + 1))};
}

// Returns the attributes of Llama-3-8B but for the size of heads, in streams of 4 x 2048 tokens.
Attributes attributes(int64_t head_size, int64_t window) {
  return {{"heads", int64_t{32}}, {"kv_heads", int64_t{8}},  {"head_size", head_size},       {"sliding_window", window},
          {"scale", 0.0884},      {"tokens", int64_t{8192}}, {"sequence_len", int64_t{2048}}};
}

LibraryAttention llama_8b(int64_t window, bool is_backward) {
  return library_attention(attributes(128, window), DType::kBF16, 4096, false, is_backward);
}

// Returns an attention of Wan 2.1 1.3B: a clip of 480 x 832 x 77 frames, all of which every patch sees, or its text.
LibraryAttention wan(bool sees_text, bool is_backward) {
  Attributes of_wan = {{"heads", int64_t{12}},         {"kv_heads", int64_t{12}}, {"head_size", int64_t{128}},
                       {"sliding_window", int64_t{0}}, {"scale", 0.0884},         {"tokens", int64_t{31200}},
                       {"sequence_len", int64_t{0}},   {"causal", int64_t{0}},    {"key_sequence_len", int64_t{512}}};
  if (sees_text) of_wan.add("key_tokens", int64_t{512});
  return library_attention(of_wan, DType::kBF16, 1, false, is_backward);
}

}  // namespace

TEST_CASE("cuDNN takes packed attention on an H200 and is content with the workspace that plans grant") {
  const std::string version = Cudnn::find().version;  // the build took its headers from beside it
  CAPTURE(version);
  CHECK(llama_8b(0, false).sequences == 32);
  for (const bool is_backward : {false, true}) {
    CAPTURE(is_backward);
    for (const LibraryAttention& attention :
         {llama_8b(0, is_backward), llama_8b(512, is_backward), wan(false, is_backward), wan(true, is_backward)}) {
      CAPTURE(attention.window);
      CAPTURE(attention.is_causal);
      CAPTURE(attention.key_tokens);
      const CudnnAttention::Engine engine = CudnnAttention::find_engine(attention, 9, 0, kH200);
      // The graph is right and has engines; to compile them takes the driver's library.
      if (engine.problem.find("RUNTIME_PREREQUISITE_MISSING") != std::string::npos && !has_gpu()) continue;
      // Versions before 9.25 keep all scores of a deterministic backward: for sequences of 2,048 more than the granted
      // bytes.
      if (is_backward && major_minor(version) < std::pair(9, 25)) {
        CHECK(engine.name.empty());
        continue;
      }
      CHECK(engine.problem == "");
      CHECK(!engine.name.empty());
      const LibraryWorkspace granted(attention);
      CHECK(engine.workspace_bytes <= granted.bytes - granted.engine);
    }
  }
}

TEST_CASE("a library has no part in attention that it has no engines for") {
  CHECK(library_attention(attributes(128, 0), DType::kF32, 16, false, false).sequences == 0);
  CHECK(library_attention(attributes(72, 0), DType::kBF16, 16, false, false).sequences == 0);
  CHECK(library_attention(attributes(512, 0), DType::kBF16, 16, false, false).sequences == 0);
  CHECK(library_attention(attributes(64, 0), DType::kBF16, 16, true, false).sequences == 0);
  CHECK(library_attention(attributes(64, 0), DType::kBF16, 16, false, false).sequences == 16);
  CHECK(LibraryWorkspace(library_attention(attributes(128, 0), DType::kF32, 16, false, true)).bytes == 0);
  CHECK(wan(false, false).longest_keys == 31200);
  CHECK(wan(true, false).longest_keys == 512);
}

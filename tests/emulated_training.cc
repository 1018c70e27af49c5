// Whole trainings with the kernels of CUDA, run by the CPU thread by thread (backend/testing/simt.h): what a GPU's are
// held against, but for the libraries' products and attention, in whose place the CPU's are, and for time.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "tests/support/mode_jobs.h"
#include "tests/support/model_parity.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Plans and programs see a GPU with memory of its own.
class EmulatedGpu final : public Device {
 public:
  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
  [[nodiscard]] bool is_asynchronous() const override { return false; }
  [[nodiscard]] bool shares_host_memory() const override { return false; }
  [[nodiscard]] int64_t free_bytes() const override { return cpu_device().free_bytes(); }
  [[nodiscard]] int64_t library_bytes() const override { return 0; }
  [[nodiscard]] Memory allocate(std::string_view tier, int64_t bytes) override {
    return cpu_device().allocate(tier, bytes);
  }
  [[nodiscard]] Pinned pin(std::span<std::byte>) override { return {}; }
  [[nodiscard]] std::unique_ptr<DeviceQueue> make_queue() override { return cpu_device().make_queue(); }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return cpu_device().make_event(); }
};

}  // namespace

TEST_CASE("with CUDA's kernels, loss and gradients equal those of transformers and of peft") {
  EmulatedGpu gpu;
  for (const std::string model : kTinyModels) {
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      check_gradients(model, {.adapter = adapter, .device = &gpu});
    }
  }
}

TEST_CASE("with CUDA's kernels, the row of pad_token_id gets no gradient by look-ups") {
  EmulatedGpu gpu;
  check_gradients("llama2", {.config_overrides = R"({"pad_token_id": 71})", .device = &gpu});
  check_curve("llama32", {.config_overrides = R"({"pad_token_id": 71})", .device = &gpu});
}

TEST_CASE("with CUDA's kernels, DoRA follows peft") {
  EmulatedGpu gpu;
  check_gradients("llama_bias", {.adapter = "adapter_dora", .device = &gpu});
  check_gradients("qwen3", {.adapter = "adapter_dora", .device = &gpu});
}

TEST_CASE("with CUDA's kernels, 20 steps follow torch's AdamW") {
  EmulatedGpu gpu;
  check_curve("llama2", {.device = &gpu});
  check_bf16_curve("qwen3", {.adapter = "adapter", .device = &gpu});
}

TEST_CASE("with CUDA's kernels, every mode gives the losses and weights of the plain run, bit for bit") {
  EmulatedGpu gpu;
  TinySetup setup = mode_setups().front();  // full fine-tuning: all that can be offloaded is there
  setup.device = &gpu;
  check_modes(ModeJobs(setup));
}

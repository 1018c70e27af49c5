#include <charconv>
#include <filesystem>
#include <system_error>

#include "backend/device.h"
#include "base/error.h"
#include "base/log.h"
#ifdef SPILLWAY_CUDA
#include "backend/cuda/device.h"
#endif

namespace spillway {
namespace {

// Returns cpu_device() without owning it.
std::shared_ptr<Device> shared_cpu() { return {std::shared_ptr<Device>(), &cpu_device()}; }

#ifdef SPILLWAY_CUDA

std::shared_ptr<Device> open_gpu(std::string_view name, int32_t ordinal) {
  const cuda::Presence presence = cuda::find_gpus();
  if (ordinal < presence.gpus) return cuda::open_gpu(ordinal);
  if (presence.gpus == 0)
    throw input_error("device", "expected a GPU for '{}', got none: {}; write device: cpu", name, presence.problem);
  throw input_error("device", "expected a number below {}, the GPUs of this machine, got '{}'; write one of them",
                    presence.gpus, name);
}

std::shared_ptr<Device> open_best() {
  const cuda::Presence presence = cuda::find_gpus();
  if (presence.gpus == 0) {
    log_info("no GPU ({}): computing on the CPU", presence.problem);
    return shared_cpu();
  }
  try {
    return cuda::open_gpu(0);
  } catch (const MachineError& error) {
    log_info("the GPU cannot be used ({}): computing on the CPU", error.what());
    return shared_cpu();
  }
}

#else

std::shared_ptr<Device> open_gpu(std::string_view name, int32_t) {
  throw input_error("device", "expected cpu, got '{}', as this program was built without CUDA; see docs/cuda.md", name);
}

std::shared_ptr<Device> open_best() { return shared_cpu(); }

#endif

}  // namespace

GpuSurvey survey_gpus() {
  GpuSurvey survey;
#ifdef SPILLWAY_CUDA
  const cuda::Presence presence = cuda::find_gpus();
  survey.gpus = presence.gpus;
  if (presence.gpus == 0)
    survey.missing.push_back(
        {"GPU", presence.problem, "install NVIDIA's driver, version 580 or later, where there is one"});
  for (const cuda::LibraryState& library : cuda::find_libraries()) {
    if (!library.found.version.empty()) {
      survey.libraries.push_back({library.name, library.found.version, library.found.path});
    } else {
      survey.missing.push_back({library.name, library.problem, "see docs/cuda.md"});
    }
  }
#else
  std::error_code error;
  if (std::filesystem::exists("/dev/nvidiactl", error))
    survey.missing.push_back({"CUDA", "this machine's GPU is not used, as this program was built without",
                              "tools/install_dependencies cuda; tools/build cuda"});
#endif
  return survey;
}

std::shared_ptr<Device> open_device(std::string_view name) {
  if (name == "auto") return open_best();
  if (name == "cpu") return shared_cpu();
  const std::optional<int32_t> ordinal = gpu_of(name);
  if (!ordinal) throw input_error("device", "expected auto, cpu, cuda or cuda:N, got '{}'; write one of them", name);
  return open_gpu(name, *ordinal);
}

std::optional<int32_t> gpu_of(std::string_view name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  int32_t ordinal = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), ordinal);
  if (error != std::errc() || end != name.data() + name.size() || ordinal < 0) return {};
  return ordinal;
}

}  // namespace spillway

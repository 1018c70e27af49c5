#include "backend/cuda/device.h"

#include <algorithm>
#include <atomic>

#include "backend/cuda/check.h"
#include "backend/cuda/context.h"
#include "backend/cuda/nccl.h"
#include "backend/kernel.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

namespace spillway::cuda {
namespace {

class CudaEvent final : public DeviceEvent {
 public:
  explicit CudaEvent(int ordinal) : ordinal_(ordinal) {
    make_current();
    check(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(CudaEvent&&) = delete;

  [[nodiscard]] bool has_happened() const override {
    make_current();
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "the GPU's work to succeed");
    return true;
  }
  void await() const override {
    make_current();
    check(cudaEventSynchronize(event_), "the GPU's work to succeed");
  }
  [[nodiscard]] double seconds_since(const DeviceEvent& other) const override {
    make_current();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEvent&>(other).event_, event_),
          "the time between two events");
    return 1e-3 * static_cast<double>(milliseconds);
  }
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  void make_current() const { check(cudaSetDevice(ordinal_), "the GPU"); }

  int ordinal_;
  cudaEvent_t event_ = nullptr;
};

cudaEvent_t raw(const DeviceEvent& event) { return dynamic_cast<const CudaEvent&>(event).get(); }

class CudaGraph final : public CapturedWork {
 public:
  // Takes a graph that the caller destroys.
  explicit CudaGraph(cudaGraph_t graph) { check(cudaGraphInstantiate(&executable_, graph, 0), "a graph of kernels"); }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(CudaGraph&&) = delete;

  [[nodiscard]] cudaGraphExec_t get() const { return executable_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

class CudaQueue final : public DeviceQueue {
 public:
  explicit CudaQueue(Context& context) : context_(context) {
    make_current();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  }
  // Waits, since work left in the queue uses memory that is about to go. Its errors cannot be reported.
  ~CudaQueue() override {
    cudaSetDevice(context_.ordinal());
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  CudaQueue(CudaQueue&&) = delete;

  void run(KernelFunction kernel, const KernelArgs& args) override {
    make_current();
    kernel({.inputs = args.inputs,
            .outputs = args.outputs,
            .workspace = args.workspace,
            .attributes = args.attributes,
            .stream = stream_,
            .context = &context_});
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    make_current();
    const cudaError_t error = cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_);
    if (error != cudaSuccess) check(error, fmt::format("to copy {}", format_bytes(bytes)));
  }
  void record(DeviceEvent& event) override {
    make_current();
    check(cudaEventRecord(raw(event), stream_), "to record an event");
  }
  void wait(const DeviceEvent& event) override {
    make_current();
    check(cudaStreamWaitEvent(stream_, raw(event), cudaEventWaitDefault), "to wait for an event");
  }
  void finish() override {
    make_current();
    check(cudaStreamSynchronize(stream_), "the GPU's work to succeed");
  }

  std::unique_ptr<CapturedWork> capture(const std::function<void()>& put) override {
    make_current();
    cudaGraph_t graph = nullptr;
    std::unique_ptr<CudaGraph> work;
    try {
      check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "to capture kernels");
      put();
      check(cudaStreamEndCapture(stream_, &graph), "to capture kernels");
      work = std::make_unique<CudaGraph>(graph);
      // Takes its memory now, not at the first launch, when failing would be fatal.
      check(cudaGraphUpload(work->get(), stream_), "memory for a graph of kernels");
      check(cudaStreamSynchronize(stream_), "memory for a graph of kernels");
    } catch (const MachineError& error) {
      work.reset();
      abandon_capture();
      if (!has_warned_.exchange(true))
        log_info("kernels cannot be captured ({}): each is launched by itself", error.what());
    } catch (...) {
      abandon_capture();
      if (graph) cudaGraphDestroy(graph);
      throw;
    }
    if (graph) cudaGraphDestroy(graph);
    return work;
  }
  void replay(const CapturedWork& work) override {
    make_current();
    check(cudaGraphLaunch(dynamic_cast<const CudaGraph&>(work).get(), stream_), "a graph of kernels to be launched");
  }

 private:
  void abandon_capture() {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t rest = nullptr;
    if (cudaStreamIsCapturing(stream_, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone)
      cudaStreamEndCapture(stream_, &rest);
    if (rest) cudaGraphDestroy(rest);
    (void)cudaGetLastError();  // or the next launch would report it
  }

  // Makes the device current for the calling thread: each lane's thread has its own current device.
  void make_current() const { check(cudaSetDevice(context_.ordinal()), "the GPU"); }

  static inline std::atomic<bool> has_warned_{false};

  Context& context_;
  cudaStream_t stream_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {
    // A waiting thread sleeps: a step's waits are long, and other threads may need the core.
    check(cudaInitDevice(ordinal, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid), "the GPU's context");
    make_current();
    free_at_start_ = free_bytes();
    context_ = std::make_unique<Context>(ordinal);
  }

  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
  [[nodiscard]] std::string description() const override { return context_->properties().name; }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  [[nodiscard]] bool shares_host_memory() const override { return false; }

  [[nodiscard]] std::string libraries() const override {
    std::string text = "cuBLASLt " + CublasLt::find().version;
    if (context_->cudnn()) text += ", cuDNN " + Cudnn::find().version;
    return text;
  }

  [[nodiscard]] int64_t free_bytes() const override {
    make_current();
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "to ask how much memory is free");
    return static_cast<int64_t>(free);
  }
  [[nodiscard]] int64_t total_bytes() const override {
    return static_cast<int64_t>(context_->properties().totalGlobalMem);
  }
  [[nodiscard]] int64_t library_bytes() const override {
    return std::max<int64_t>(0, free_at_start_ - allocated_ - free_bytes());
  }

  [[nodiscard]] Memory allocate(std::string_view tier, int64_t bytes) override {
    if (bytes == 0) return {};
    make_current();
    void* memory = nullptr;
    if (const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes)); error != cudaSuccess) {
      (void)cudaGetLastError();  // or the next launch would report it
      throw machine_error(tier, "expected {} of GPU memory for the plan, got '{}' with {} free; lower memory.{}",
                          format_bytes(bytes), cudaGetErrorString(error), format_bytes(free_bytes()), tier);
    }
    allocated_ += bytes;
    return {static_cast<std::byte*>(memory), [this, bytes](std::byte* base) {
              cudaSetDevice(ordinal_);
              cudaFree(base);
              allocated_ -= bytes;
            }};
  }

  [[nodiscard]] Pinned pin(std::span<std::byte> memory) override {
    if (memory.empty()) return {};
    make_current();
    const cudaError_t error = cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();
      if (!has_warned_.exchange(true)) {
        log_info("the system lets no {} of host memory be pinned ({}): copies from and to the GPU are slower",
                 format_bytes(std::ssize(memory)), cudaGetErrorString(error));
      }
      return {};
    }
    return {static_cast<const void*>(memory.data()), [ordinal = ordinal_](const void* base) {
              cudaSetDevice(ordinal);
              cudaHostUnregister(const_cast<void*>(base));
            }};
  }

  [[nodiscard]] std::unique_ptr<DeviceQueue> make_queue() override { return std::make_unique<CudaQueue>(*context_); }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<CudaEvent>(ordinal_); }

  void choose_algorithms(bool choosing) override { context_->cublas().choose(choosing); }
  [[nodiscard]] Algorithms algorithms() const override { return context_->cublas().algorithms(); }
  void set_algorithms(const Algorithms& algorithms) override { context_->cublas().set_algorithms(algorithms); }

 private:
  void make_current() const { check(cudaSetDevice(ordinal_), "the GPU"); }

  int ordinal_;
  int64_t free_at_start_ = 0;
  std::atomic<int64_t> allocated_{0};
  std::atomic<bool> has_warned_{false};
  std::unique_ptr<Context> context_;
};

}  // namespace

Presence find_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {count, ""};
  (void)cudaGetLastError();
  if (error == cudaSuccess || error == cudaErrorNoDevice) return {0, "the driver sees none"};
  if (error == cudaErrorInsufficientDriver) {
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return {0, "no NVIDIA driver is installed"};
    return {
        0, fmt::format("the NVIDIA driver is for CUDA {}.{}, and 13.0 is needed", version / 1000, version % 1000 / 10)};
  }
  return {0, cudaGetErrorString(error)};
}

std::vector<LibraryState> find_libraries() {
  const auto state_of = [](std::string name, FoundLibrary (*find)()) {
    LibraryState state{.name = std::move(name)};
    try {
      state.found = find();
    } catch (const MachineError& error) {
      state.problem = error.what();
    }
    return state;
  };
  return {state_of("cuBLASLt", CublasLt::find), state_of("cuDNN", Cudnn::find), state_of("NVRTC", Cudnn::find_compiler),
          state_of("NCCL", find_nccl_library)};
}

std::shared_ptr<Device> open_gpu(int ordinal) { return std::make_shared<CudaDevice>(ordinal); }

}  // namespace spillway::cuda

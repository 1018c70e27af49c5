#include "backend/cuda/cublas_lt.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "backend/cuda/check.h"
#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"

namespace spillway::cuda {
namespace {

// The most proposals of the library to try, best first by its own estimate.
constexpr int kMaxAlgorithms = 8;
constexpr int kRunsToMeasure = 5;
// A step has some dozens of shapes; streams of many lengths would have ever new ones.
constexpr size_t kMaxPlans = 512;

cudaDataType_t cuda_type(DType dtype) {
  SPILLWAY_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "a product of {}", name_of(dtype));
  return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

// Returns the multiple that the library may assume an address to be. More than the widest access gains nothing, and
// would let an algorithm depend on where a plan puts a value.
uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 16;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

std::string to_string(const Product& p) {
  const std::string bias = p.bias ? fmt::format(" bias align {}", alignment_of(p.bias)) : "";
  return fmt::format("{}x{}x{} {}{} {}->{}{}{} align {} {} {} workspace {}", p.m, p.n, p.k, p.transpose_a ? 't' : 'n',
                     p.transpose_b ? 't' : 'n', name_of(p.in), name_of(p.out), p.accumulate ? "+" : "", bias,
                     alignment_of(p.a), alignment_of(p.b), alignment_of(p.d), p.workspace_bytes);
}

}  // namespace

CublasLt::Key CublasLt::key_of(const Product& p) {
  const auto flags = (p.transpose_a ? 1 : 0) | (p.transpose_b ? 2 : 0) | (p.accumulate ? 4 : 0);
  return {p.m,
          p.n,
          p.k,
          flags,
          static_cast<int64_t>(p.in),
          static_cast<int64_t>(p.out),
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.d),
          p.bias ? alignment_of(p.bias) : 0,
          p.workspace_bytes};
}

struct CublasLt::Functions {
  Library library{"cuBLASLt", "libcublasLt.so.13",
                  "install the CUDA 13 toolkit or the PyPI package nvidia-cublas, or name its folder in "
                  "LD_LIBRARY_PATH"};
  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtGetVersion)* version;
  decltype(cublasLtGetStatusString)* status_string;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulDescCreate)* desc_create;
  decltype(cublasLtMatmulDescDestroy)* desc_destroy;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set;
  decltype(cublasLtMatrixLayoutCreate)* layout_create;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;

  Functions() {
    library.find("cublasLtCreate", create);
    library.find("cublasLtDestroy", destroy);
    library.find("cublasLtGetVersion", version);
    library.find("cublasLtGetStatusString", status_string);
    library.find("cublasLtMatmul", matmul);
    library.find("cublasLtMatmulDescCreate", desc_create);
    library.find("cublasLtMatmulDescDestroy", desc_destroy);
    library.find("cublasLtMatmulDescSetAttribute", desc_set);
    library.find("cublasLtMatrixLayoutCreate", layout_create);
    library.find("cublasLtMatrixLayoutDestroy", layout_destroy);
    library.find("cublasLtMatmulPreferenceCreate", preference_create);
    library.find("cublasLtMatmulPreferenceDestroy", preference_destroy);
    library.find("cublasLtMatmulPreferenceSetAttribute", preference_set);
    library.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
  }
};

// A shape's descriptors and its algorithm. The library is column-major: it computes the transpose of D, which in memory
// is D, from B and A in this order.
struct CublasLt::Plan {
  const Functions& functions;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_measured = false;

  explicit Plan(const Functions& f) : functions(f) {}
  Plan(Plan&&) = delete;
  ~Plan() {
    if (preference) functions.preference_destroy(preference);
    for (const cublasLtMatrixLayout_t layout : {a, b, d}) {
      if (layout) functions.layout_destroy(layout);
    }
    if (product) functions.desc_destroy(product);
  }
};

CublasLt::CublasLt() : functions_(std::make_unique<Functions>()) { check(functions_->create(&handle_), "a handle"); }

CublasLt::~CublasLt() {
  plans_.clear();
  if (handle_) functions_->destroy(handle_);
}

FoundLibrary CublasLt::find() {
  const Functions functions;
  return {version_text(functions.version()), functions.library.path()};
}

void CublasLt::check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw machine_error("cuBLASLt", "expected {}, got '{}'; see `spillway doctor`", what,
                      functions_->status_string(status));
}

void CublasLt::multiply(const Product& product, cudaStream_t stream) {
  const PlanPointer plan = plan_for(product, stream);
  if (const cublasStatus_t status = start(*plan, plan->algorithm, product, stream); status != CUBLAS_STATUS_SUCCESS)
    check(status, to_string(product));
}

cublasStatus_t CublasLt::start(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Product& p,
                               cudaStream_t stream) const {
  const float beta = p.accumulate ? 1 : 0;
  // A plan serves biases at many addresses, maybe at once: each call has a description of its own.
  cublasLtMatmulDescOpaque_t description = *plan.product;
  if (p.bias) {
    const cublasStatus_t status =
        functions_->desc_set(&description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof p.bias);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return functions_->matmul(handle_, &description, &p.alpha, p.b, plan.b, p.a, plan.a, &beta, p.d, plan.d, p.d, plan.d,
                            &algorithm, p.workspace, static_cast<size_t>(p.workspace_bytes), stream);
}

CublasLt::PlanPointer CublasLt::plan_for(const Product& product, cudaStream_t stream) {
  const Key key = key_of(product);
  {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end() && (found->second.plan->is_measured || !choosing_)) {
      found->second.last_use = ++uses_;
      return found->second.plan;
    }
  }
  PlanPointer plan = make_plan(product, stream);
  const std::lock_guard lock(mutex_);
  const auto is_older = [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; };
  if (plans_.size() >= kMaxPlans) plans_.erase(std::min_element(plans_.begin(), plans_.end(), is_older));
  return plans_.insert_or_assign(key, KeptPlan{std::move(plan), ++uses_}).first->second.plan;
}

CublasLt::PlanPointer CublasLt::make_plan(const Product& p, cudaStream_t stream) {
  const Functions& f = *functions_;
  // Another version of the library has other algorithms, or others in this order; so have sums in other types.
  const std::string name = fmt::format("{} in f32 sums by cuBLASLt {}", to_string(p), version_text(f.version()));
  auto plan = std::make_shared<Plan>(f);
  check(f.desc_create(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product's description");
  const auto describe = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(f.desc_set(plan->product, attribute, &value, sizeof value), "a product's description");
  };
  describe(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  describe(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias) {
    // The bias is one number for each row of the library's D, which are the columns of ours. Its proposals depend on
    // how the address is aligned; start() gives the address itself.
    describe(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    describe(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(cuda_type(p.out)));
    describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(uintptr_t{alignment_of(p.bias)}));
  }
  // A row-major matrix of r rows and c columns is a column-major one of c rows and r columns.
  const auto layout = [&](cublasLtMatrixLayout_t& into, DType dtype, int64_t rows, int64_t columns) {
    check(
        f.layout_create(&into, cuda_type(dtype), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), columns),
        "a matrix's layout");
  };
  layout(plan->a, p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
  layout(plan->b, p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
  layout(plan->d, p.out, p.m, p.n);

  check(f.preference_create(&plan->preference), "a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(f.preference_set(plan->preference, attribute, &value, sizeof value), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(p.workspace_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.d));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.d));
  // Parts of a sum stay in f32 and are rounded once: by default the library may add them up in D, in its type.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});

  Candidates candidates(kMaxAlgorithms);
  int found = 0;
  const cublasStatus_t status = f.heuristic(handle_, plan->product, plan->b, plan->a, plan->d, plan->d,
                                            plan->preference, kMaxAlgorithms, candidates.data(), &found);
  check(status, name);
  resize(candidates, found);
  std::erase_if(candidates, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  if (candidates.empty())
    throw machine_error("cuBLASLt", "expected an algorithm for {}, got none; install a newer version", name);

  int32_t index = -1;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = algorithms_.find(name); known != algorithms_.end()) index = known->second;
  }
  if (index < 0 && choosing_) {
    index = measure(*plan, candidates, p, stream);
    const std::lock_guard lock(mutex_);
    algorithms_[name] = index;
  }
  plan->is_measured = index >= 0;
  plan->algorithm = nth(candidates, std::clamp<int64_t>(index, 0, std::ssize(candidates) - 1)).algo;
  return plan;
}

int32_t CublasLt::measure(const Plan& plan, const Candidates& candidates, const Product& product,
                          cudaStream_t stream) const {
  std::array<cudaEvent_t, 2> events{};
  for (cudaEvent_t& event : events) cuda::check(cudaEventCreate(&event), "an event");
  int32_t best = 0;
  float best_milliseconds = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i) {
    // The first run loads the algorithm's code.
    if (start(plan, candidates[i].algo, product, stream) != CUBLAS_STATUS_SUCCESS) continue;
    float milliseconds = std::numeric_limits<float>::infinity();
    cuda::check(cudaEventRecord(events[0], stream), "to measure a product");
    for (int run = 0; run < kRunsToMeasure; ++run) (void)start(plan, candidates[i].algo, product, stream);
    cuda::check(cudaEventRecord(events[1], stream), "to measure a product");
    cuda::check(cudaEventSynchronize(events[1]), "to measure a product");
    cuda::check(cudaEventElapsedTime(&milliseconds, events[0], events[1]), "to measure a product");
    if (milliseconds < best_milliseconds) {
      best = static_cast<int32_t>(i);
      best_milliseconds = milliseconds;
    }
  }
  for (const cudaEvent_t event : events) cudaEventDestroy(event);
  return best;
}

Device::Algorithms CublasLt::algorithms() const {
  const std::lock_guard lock(mutex_);
  return algorithms_;
}

void CublasLt::set_algorithms(const Device::Algorithms& algorithms) {
  const std::lock_guard lock(mutex_);
  algorithms_ = algorithms;
  plans_.clear();
}

}  // namespace spillway::cuda

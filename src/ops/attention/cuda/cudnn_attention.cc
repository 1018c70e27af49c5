#include "ops/attention/cuda/cudnn_attention.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <stdexcept>
#include <utility>

#include "backend/cuda/cudnn.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

namespace cudnn_frontend {
// The variable in which the frontend's headers look for the library's functions.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace spillway::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

// The names of the operands of both graphs.
enum Operand : int64_t {
  kQOffsets = 1,
  kKvOffsets,
  kLseOffsets,
  kLengths,
  kKeyLengths,
  kQ,
  kK,
  kV,
  kO,
  kLse,
  kDo,
  kDq,
  kDk,
  kDv
};

// Turns errors of the frontend, which throws std::runtime_error if the library lacks a function or refuses, into ours.
template <typename Call>
auto with_machine_errors(const Call& call) {
  try {
    return call();
  } catch (const MachineError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw machine_error("cuDNN", "expected it to work, got '{}'; see `spillway doctor`", error.what());
  }
}

// Opens cuDNN and gives it to the frontend.
void open_for_frontend() { fe::cudnn_dlhandle = Cudnn::open(); }

void check(const fe::error_t& error, std::string_view what) {
  if (error.is_good()) return;
  throw machine_error("cuDNN", "expected {}, got '{}'; see `spillway doctor`", what, error.err_msg);
}
void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw machine_error("cuDNN", "expected {}, got '{}'; see `spillway doctor`", what,
                      fe::detail::get_error_string(status));
}

// Makes the frontend's graph of one attention. Tensors are [sequence, head, token, feature], and a sequence begins at
// its ragged offset.
class GraphMaker {
 public:
  GraphMaker(fe::graph::Graph& graph, const LibraryAttention& attention) : graph_(graph), attention_(attention) {
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const int64_t count = attention.sequences + 1;
    q_offsets_ = index(kQOffsets, count, fe::DataType_t::INT64);
    kv_offsets_ = index(kKvOffsets, count, fe::DataType_t::INT64);
    lse_offsets_ = index(kLseOffsets, count, fe::DataType_t::INT64);
    lengths_ = key_lengths_ = index(kLengths, count - 1, fe::DataType_t::INT32);
    if (attention.key_tokens > 0) key_lengths_ = index(kKeyLengths, count - 1, fe::DataType_t::INT32);
  }

  void make_forward() {
    const Tensor q = input(kQ), k = input(kK), v = input(kV);
    fe::graph::SDPA_attributes options;
    options.set_name("attention").set_generate_stats(true);
    set(options);
    const auto [o, lse] = graph_.sdpa(q, k, v, options);
    describe(*o, kO).set_output(true);
    describe(*lse, kLse).set_output(true);
  }

  void make_backward() {
    const Tensor q = input(kQ), k = input(kK), v = input(kV), o = input(kO), d_o = input(kDo), lse = input(kLse);
    fe::graph::SDPA_backward_attributes options;
    options.set_name("attention_grad").set_deterministic_algorithm(true);
    set(options);
    const auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, o, d_o, lse, options);
    describe(*dq, kDq).set_output(true);
    describe(*dk, kDk).set_output(true);
    describe(*dv, kDv).set_output(true);
  }

 private:
  Tensor index(Operand id, int64_t count, fe::DataType_t type) {
    return graph_.tensor(
        Tensor_attributes().set_uid(id).set_dim({count, 1, 1, 1}).set_stride({1, 1, 1, 1}).set_data_type(type));
  }
  Tensor input(Operand id) {
    Tensor_attributes attributes;
    return graph_.tensor(describe(attributes, id));
  }
  Tensor_attributes& describe(Tensor_attributes& tensor, Operand id) {
    const bool is_kv = id == kK || id == kV || id == kDk || id == kDv, is_lse = id == kLse;
    const int64_t heads = is_kv ? attention_.kv_heads : attention_.heads;
    const int64_t size = is_lse ? 1 : attention_.head_size;
    const int64_t longest = is_kv ? attention_.longest_keys : attention_.longest;
    return tensor.set_uid(id)
        .set_dim({attention_.sequences, heads, longest, size})
        .set_stride({longest * heads * size, size, heads * size, 1})
        .set_ragged_offset(is_lse  ? lse_offsets_
                           : is_kv ? kv_offsets_
                                   : q_offsets_)
        .set_data_type(is_lse ? fe::DataType_t::FLOAT : fe::DataType_t::BFLOAT16);
  }
  template <typename Options>
  void set(Options& options) {
    options.set_attn_scale(attention_.scale)
        .set_padding_mask(true)
        .set_seq_len_q(lengths_)
        .set_seq_len_kv(key_lengths_)
        .set_max_total_seq_len_q(attention_.tokens)
        .set_max_total_seq_len_kv(attention_.key_rows());
    if (!attention_.is_causal) return;
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (attention_.window > 0) options.set_diagonal_band_left_bound(narrow<int>(attention_.window));
  }

  fe::graph::Graph& graph_;
  const LibraryAttention& attention_;
  Tensor q_offsets_, kv_offsets_, lse_offsets_, lengths_, key_lengths_;
};

// Returns the bytes of a plan's workspace that its engine may use.
int64_t granted_bytes(const LibraryAttention& attention) {
  const LibraryWorkspace granted(attention);
  return granted.bytes - granted.engine;
}

// Does the work of build() below, and throws what the frontend throws.
fe::error_t try_to_build(fe::graph::Graph& graph, const LibraryAttention& attention, int compute_capability,
                         cudnnHandle_t handle, const std::shared_ptr<const fe::DeviceProperties>& properties) {
  graph.set_sm_version(compute_capability);
  if (properties) graph.set_device_properties(properties);
  GraphMaker maker(graph, attention);
  if (attention.is_backward) {
    maker.make_backward();
  } else {
    maker.make_forward();
  }
  if (auto error = graph.validate(); error.is_bad()) return error;
  if (auto error = handle ? graph.build_operation_graph(handle) : graph.build_operation_graph(); error.is_bad())
    return error;
  if (auto error = graph.create_execution_plans({fe::HeurMode_t::A}); error.is_bad()) return error;
  graph.deselect_workspace_greater_than(granted_bytes(attention));
  if (auto error = graph.check_support(); error.is_bad()) return error;
  return graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
}

// Builds the first engine in the library's own order for which the granted workspace suffices and that it can build:
// the same one each time. `properties` are given if there is no handle.
fe::error_t build(fe::graph::Graph& graph, const LibraryAttention& attention, int compute_capability,
                  cudnnHandle_t handle, const std::shared_ptr<const fe::DeviceProperties>& properties) {
  // Only from 9.18.1 on does the frontend itself say that on Ampere, Ada and the smaller Blackwells the backward of
  // packed sequences is not deterministic.
  if (const int major = compute_capability / 10; attention.is_backward && (major == 8 || major == 12))
    return {fe::error_code_t::GRAPH_NOT_SUPPORTED, "no deterministic backward of packed sequences on this GPU"};
  try {
    return try_to_build(graph, attention, compute_capability, handle, properties);
  } catch (const std::runtime_error& error) {
    return {fe::error_code_t::GRAPH_NOT_SUPPORTED, error.what()};
  }
}

// Describes the engine of a graph that was built.
CudnnAttention::Engine engine_of(const fe::graph::Graph& graph) {
  CudnnAttention::Engine engine;
  check(graph.get_plan_name(engine.name), "an engine's name");
  check(graph.get_workspace_size(engine.workspace_bytes), "an engine's workspace");
  return engine;
}

}  // namespace

struct CudnnAttention::Plan {
  fe::graph::Graph graph;
  bool is_usable = false;
};

CudnnAttention::CudnnAttention(const Context& context)
    : compute_capability_(10 * context.properties().major + context.properties().minor),
      handle_(context.cudnn()->handle()) {
  open_for_frontend();
}

CudnnAttention::~CudnnAttention() = default;

CudnnAttention::Engine CudnnAttention::find_engine(const LibraryAttention& attention, int major, int minor,
                                                   std::string_view properties) {
  open_for_frontend();
  const auto device = std::make_shared<fe::DeviceProperties>();
  check(device->deserialize({properties.begin(), properties.end()}), "a GPU's properties");
  fe::graph::Graph graph;
  const fe::error_t error = build(graph, attention, 10 * major + minor, nullptr, device);
  return error.is_good() ? engine_of(graph) : Engine{.problem = error.err_msg};
}

const CudnnAttention::Plan& CudnnAttention::plan_for(const LibraryAttention& attention) {
  if (const auto known = plans_.find(attention); known != plans_.end()) return *known->second;
  auto plan = std::make_unique<Plan>();
  const fe::error_t error = build(plan->graph, attention, compute_capability_, handle_, nullptr);
  plan->is_usable = error.is_good();
  if (plan->is_usable) {
    const Engine engine = with_machine_errors([&] { return engine_of(plan->graph); });
    SPILLWAY_CHECK(engine.workspace_bytes <= granted_bytes(attention), "{} wants {}", engine.name,
                   format_bytes(engine.workspace_bytes));
  } else {
    log_info("cuDNN has no engine for attention, {}, within {} of workspace ({}): our own kernel computes it, slower",
             attention.is_backward ? "backward" : "forward", format_bytes(granted_bytes(attention)), error.err_msg);
  }
  return *plans_.emplace(attention, std::move(plan)).first->second;
}

bool CudnnAttention::can_compute(const LibraryAttention& attention) {
  const std::lock_guard lock(mutex_);
  return plan_for(attention).is_usable;
}

void CudnnAttention::execute(const LibraryAttention& attention, std::unordered_map<int64_t, void*> operands,
                             std::byte* workspace, void* stream) {
  const LibraryWorkspace layout(attention);
  operands[kQOffsets] = workspace + layout.q_offsets;
  operands[kKvOffsets] = workspace + layout.kv_offsets;
  operands[kLseOffsets] = workspace + layout.lse_offsets;
  operands[kLengths] = workspace + layout.lengths;
  if (attention.key_tokens > 0) operands[kKeyLengths] = workspace + layout.key_lengths;
  const std::lock_guard lock(mutex_);
  with_machine_errors([&] {
    check(fe::detail::set_stream(handle_, static_cast<cudaStream_t>(stream)), "a stream");
    check(plan_for(attention).graph.execute(handle_, operands, workspace + layout.engine), "to compute attention");
  });
}

void CudnnAttention::forward(const LibraryAttention& attention, const ops::AttentionArgs& args, std::byte* workspace,
                             void* stream) {
  execute(attention,
          {{kQ, const_cast<void*>(args.q)},
           {kK, const_cast<void*>(args.k)},
           {kV, const_cast<void*>(args.v)},
           {kO, args.o},
           {kLse, args.lse}},
          workspace, stream);
}

void CudnnAttention::backward(const LibraryAttention& attention, const ops::AttentionGradArgs& args,
                              std::byte* workspace, void* stream) {
  const ops::AttentionArgs& forward = args.forward;
  execute(attention,
          {{kQ, const_cast<void*>(forward.q)},
           {kK, const_cast<void*>(forward.k)},
           {kV, const_cast<void*>(forward.v)},
           {kO, forward.o},
           {kLse, forward.lse},
           {kDo, const_cast<void*>(args.d_o)},
           {kDq, args.dq},
           {kDk, args.dk},
           {kDv, args.dv}},
          workspace, stream);
}

}  // namespace spillway::cuda

// Tests operations: on the CPU, over plain buffers, against a reference in float64.
//
//   OperationCase test{.tokens = 5,
//                      .inputs = {{{DType::kF32, {5, 8}, kTokenAxis}, random_numbers(40, 1)}},
//                      .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::cast(b, in[0], kBF16); },
//                      .reference = [](const std::vector<Numbers>& in) { return in[0]; }};
//   check_operation(test);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/kernel.h"
#include "graph/builder.h"
#include "graph/operation.h"

namespace spillway::ops::testing {

// The elements of a tensor, whatever its dtype.
using Numbers = std::vector<double>;

// Returns numbers that are uniform in [-scale, scale), the same for equal arguments.
[[nodiscard]] Numbers random_numbers(int64_t count, uint64_t seed, double scale = 1);
// Returns integers that are uniform in [0, bound).
[[nodiscard]] Numbers random_integers(int64_t count, uint64_t seed, int64_t bound);
// Returns each number rounded to `dtype`.
[[nodiscard]] Numbers rounded(Numbers numbers, DType dtype);

// The device of operations under test: the CPU, unless a test program sets another device before its first case.
class TestDevice {
 public:
  virtual ~TestDevice() = default;
  // Returns the workspace that run() needs for the operation, which is the next to run; 0 for a device with memory of
  // its own.
  [[nodiscard]] virtual int64_t workspace_bytes(const Graph& graph, OpId id, int threads) = 0;
  // Returns when the outputs are there. `threads` chooses one of several orders of work, if the device has several.
  virtual void run(const OpDef& def, const KernelArgs& args, int threads) = 0;
  // Returns true if it runs code that Highway compiles for several instruction sets.
  [[nodiscard]] virtual bool has_instruction_sets() const { return false; }
  // Returns true if its kernels add a whole gradient to an accumulator, bit for bit.
  [[nodiscard]] virtual bool adds_once() const { return true; }
};
void set_device(TestDevice& device);

struct RunOptions {
  int threads = 1;
  std::vector<int64_t> rows = {};  // by axis, how many there are; -1, or no number: as many as planned
  bool in_place = false;           // every output that may take an input's place does so
};

// Executes a graph once, from the first operation to the last. Buffers have their exact size, between guards that must
// not change; outputs and workspace start as NaN; inputs must not change unless an output takes their place. Every
// breach is a failed doctest CHECK.
class Run {
 public:
  // Numbers of an input that follows an axis may be those of its capacity: the first rows are taken.
  Run(const Graph& graph, const std::map<ValueId, Numbers>& inputs, const RunOptions& options = {});
  ~Run();

  [[nodiscard]] Numbers numbers(ValueId id) const;
  // Compares all values, byte for byte.
  [[nodiscard]] bool operator==(const Run& other) const;

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

struct OperandCase {
  ValueType type;
  Numbers numbers;
  bool differentiate = true;
  // Whether numbers above a run's rows of an axis become that number: offsets into a shorter stream.
  bool at_most_rows = false;
  AxisId rows_of = kTokenAxis;
};

// The second axis of a case.
constexpr AxisId kRowAxis{1};

struct OperationCase {
  int64_t tokens = 0;
  int64_t rows = 0;  // of kRowAxis; 0: the case has one axis alone
  std::vector<OperandCase> inputs;
  // Appends the operations under test and returns the output to check.
  std::function<ValueId(Builder&, const std::vector<ValueId>&)> build;
  // Computes that output from the inputs (rounded to their dtypes, cut to the rows of the run), in float64.
  std::function<Numbers(const std::vector<Numbers>&)> reference;
  // Shares of the largest element, for values and for gradients; half a unit in the last place is added for bf16.
  double tolerance = 2e-6;
  double gradient_tolerance = 1e-5;
  bool is_loss = false;  // the output ends the graph: its operation takes its cotangent to be one
};

// Calls body() on every instruction set that the vector kernels are compiled for and this CPU has; once, if the device
// under test has none.
void for_each_instruction_set(const std::function<void()>& body);

// Checks the output against the reference and the gradients against central differences of the reference, with and
// without accumulators, for all rows of each axis and fewer, on every instruction set that this CPU has; that gradients
// are added to accumulators whole; and that threads and in-place change no bit.
void check_operation(const OperationCase& test);

// Runs a graph on the device under test and on every instruction set of the CPU: all of them give the same bits.
void check_bits_of_cpu(const Graph& graph, const std::map<ValueId, Numbers>& inputs, const RunOptions& options = {});

// Appends loss = sum(y * coefficients), f32 [1], whose cotangent is one: an end for graphs under test.
[[nodiscard]] ValueId weighted_sum(Builder& builder, ValueId y, ValueId coefficients);

// Checks |got - want| <= tolerance * max(|want|, 0.01) + (half a unit of `dtype` at want), for all elements.
void check_close(const Numbers& got, const Numbers& want, DType dtype, double tolerance);

}  // namespace spillway::ops::testing

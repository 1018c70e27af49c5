#include "runtime/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/index.h"
#include "tensor/dtype.h"

namespace spillway {
namespace {

class WatchingLanes final : public LaneRunner {
 public:
  WatchingLanes(LoadedProgram& loaded, NotFinite& found) : loaded_(loaded), found_(found) {}

  void run(const SectionRange& section) override {
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(loaded_.program().instructions, i);
      loaded_.execute(i);
      if (loaded_.is_asynchronous(instruction.lane)) loaded_.memory().device_queue(instruction.lane).finish();
      if (instruction.kind != Instruction::Kind::kRun) continue;
      for (const TensorView& output : loaded_.outputs(i)) look_at(output, instruction, i);
    }
  }

 private:
  void look_at(const TensorView& output, const Instruction& instruction, int32_t number) {
    if (output.dtype != DType::kF32 && output.dtype != DType::kBF16) return;
    const void* numbers = output.data;
    if (loaded_.is_asynchronous(instruction.lane)) {
      copy_.resize(static_cast<size_t>(output.bytes()));
      DeviceQueue& queue = loaded_.memory().device_queue(instruction.lane);
      queue.copy(copy_.data(), output.data, output.bytes());
      queue.finish();
      numbers = copy_.data();
    }
    const auto note_all = [&](auto typed) {
      for (const auto value : typed) note(to_float(value), {number, instruction.op});
    };
    const auto count = static_cast<size_t>(output.elems());
    output.dtype == DType::kF32 ? note_all(std::span(static_cast<const float*>(numbers), count))
                                : note_all(std::span(static_cast<const bf16*>(numbers), count));
  }

  void note(float number, const NotFinite::Place& place) {
    if (std::isfinite(number)) return;
    std::optional<NotFinite::Place>& first = std::isnan(number) ? found_.nan : found_.infinity;
    if (!first) first = place;
  }

  LoadedProgram& loaded_;
  NotFinite& found_;
  std::vector<std::byte> copy_;
};

}  // namespace

std::string NotFinite::text(const Graph& graph) const {
  if (!nan && !infinity) return "";
  const bool is_nan = nan && (!infinity || nan->instruction <= infinity->instruction);
  const Operation& op = graph.op(is_nan ? nan->op : infinity->op);
  const std::string place = op.block == kNone ? "" : " in " + nth(graph.blocks, op.block).name;
  return fmt::format("{} from {}{}", is_nan ? "NaN" : "infinity", op.def->name, place);
}

MakeLaneRunner look_for_not_finite(NotFinite& found) {
  return [&found](LoadedProgram& loaded, LaneProfile&) { return std::make_unique<WatchingLanes>(loaded, found); };
}

}  // namespace spillway

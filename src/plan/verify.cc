#include "plan/verify.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "graph/operation.h"
#include "plan/byte_map.h"

namespace spillway {
namespace {

constexpr size_t kEnoughViolations = 20;

[[nodiscard]] Place padded(const Place& place) {
  return {place.tier, place.offset, (place.bytes + kDiskAlignment - 1) / kDiskAlignment * kDiskAlignment};
}

[[nodiscard]] bool overlap(const Place& a, const Place& b) {
  return a.tier == b.tier && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

class ProgramVerifier {
 public:
  ProgramVerifier(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}

  std::vector<std::string> run(const Budget& budget) {
    check_arenas(budget);
    check_form();
    if (!violations_.empty()) return std::move(violations_);  // the replay relies on places and ids being in range
    check_collectives();
    order_instructions();
    // Replays two steps of two micro-batches, since some errors only show the second time.
    place_homes();
    for (int step = 0; step < 2; ++step) {
      for (int micro_step = 0; micro_step < 2; ++micro_step) {
        begin_micro_step();
        replay(Repeats::kMicroBatch);
      }
      replay(Repeats::kStep);
    }
    return std::move(violations_);
  }

 private:
  template <typename... Args>
  void report(fmt::format_string<Args...> text, Args&&... args) {
    if (violations_.size() < kEnoughViolations) violations_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] const Instruction& at(int32_t i) const { return nth(program_.instructions, i); }
  [[nodiscard]] std::string describe(int32_t i) const {
    const Instruction& instruction = at(i);
    if (instruction.kind == Instruction::Kind::kCopy) return fmt::format("instruction {} (copy)", i);
    return fmt::format("instruction {} ({}{})", i, graph_.op(instruction.op).def->name,
                       instruction.recompute ? ", again" : "");
  }
  [[nodiscard]] const std::string& section_name(SectionId id) const { return nth(graph_.sections, id).name; }
  [[nodiscard]] const std::string& name(ValueId id) const { return graph_.value(id).name; }

  void check_arenas(const Budget& budget) {
    for (const Tier tier : kEachBudgetedTier) {
      const std::optional<int64_t> allowed = budget.of(tier);
      const int64_t arena = nth(program_.arena_bytes, tier);
      if (allowed && arena > *allowed)
        report("the {} arena has {} bytes, its budget is {}", name_of(tier), arena, *allowed);
    }
  }

  // Checks ids, places and the correspondence with the graph.
  void check_form() {
    if (program_.sections.size() != graph_.sections.size()) {
      report("{} sections instead of {}", program_.sections.size(), graph_.sections.size());
      return;
    }
    int32_t expected_begin = 0;
    for (const SectionRange& section : program_.sections) {
      if (section.begin != expected_begin || section.end < section.begin)
        report("sections do not cover the instructions in order");
      expected_begin = section.end;
    }
    if (expected_begin != static_cast<int32_t>(program_.instructions.size())) {
      report("sections do not cover the instructions in order");
      return;
    }
    for (const Operand& home : program_.homes) check_operand("a home", home);
    for (const Operand& result : program_.results) check_operand("a result", result);
    if (program_.results.size() != graph_.results.size())
      report("{} results instead of {}", program_.results.size(), graph_.results.size());
    std::vector<int> runs(graph_.ops.size(), 0);
    for (size_t k = 0; k < graph_.sections.size(); ++k) {
      const SectionRange& range = program_.sections[k];
      if (range.repeats != graph_.sections[k].repeats)
        report("the {} section repeats otherwise than in the graph", graph_.sections[k].name);
      for (int32_t i = range.begin; i < range.end; ++i) check_instruction(i, static_cast<SectionId>(k), runs);
    }
    for (size_t op = 0; op < runs.size(); ++op) {
      if (runs[op] != 1) report("operation {} ({}) runs {} times", op, graph_.ops[op].def->name, runs[op]);
    }
  }

  void check_instruction(int32_t i, SectionId section, std::vector<int>& runs) {
    const Instruction& instruction = at(i);
    for (const int32_t other : instruction.waits) {
      if (other < 0 || other >= i) report("instruction {} waits for {}, which is not before it", i, other);
    }
    check_tiers(i);
    if (instruction.kind == Instruction::Kind::kCopy) {
      check_copy(i);
      return;
    }
    if (instruction.op < 0 || instruction.op >= static_cast<OpId>(graph_.ops.size())) {
      report("instruction {} runs operation {}, which does not exist", i, instruction.op);
      return;
    }
    const Operation& op = graph_.op(instruction.op);
    if (instruction.recompute) {
      if (!may_run_again(*op.def)) report("{} is a collective", describe(i));
      if (!graph_.section_of(op).recomputable || section <= op.section)
        report("{} recomputes what may not be, or not in a later section", describe(i));
      for (const ValueId v : op.outputs) {
        if (graph_.value(v).updates != kNone) report("{} updates {} a second time", describe(i), name(v));
      }
    } else {
      ++nth(runs, instruction.op);
      if (op.section != section) report("{} stands in the {} section", describe(i), section_name(section));
    }
    check_operands(i, instruction.inputs, op.inputs);
    check_operands(i, instruction.outputs, op.outputs);
    if (instruction.workspace.bytes > 0) check_place(describe(i) + "'s workspace", instruction.workspace);
    check_sharing(i, op);
  }

  void check_operands(int32_t i, const std::vector<Operand>& operands, const std::vector<ValueId>& expected) {
    if (operands.size() != expected.size()) {
      report("{} has {} operands instead of {}", describe(i), operands.size(), expected.size());
      return;
    }
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k].value != expected[k]) report("{} has another operand {} than the graph", describe(i), k);
      if (operands[k].value != kNone) check_operand(describe(i), operands[k]);
    }
  }

  void check_operand(const std::string& who, const Operand& operand) {
    if (operand.value < 0 || operand.value >= static_cast<ValueId>(graph_.values.size())) {
      report("{} names value {}, which does not exist", who, operand.value);
      return;
    }
    check_place(who + " of " + name(operand.value), operand.place);
    if (operand.place.bytes != graph_.value(operand.value).type.bytes()) {
      report("{} gives {} {} bytes instead of {}", who, name(operand.value), operand.place.bytes,
             graph_.value(operand.value).type.bytes());
    }
  }

  void check_place(const std::string& who, const Place& place) {
    const int64_t arena = nth(program_.arena_bytes, place.tier);
    if (place.bytes < 0 || place.offset < 0 || place.offset > arena || place.bytes > arena - place.offset) {
      report("{} lies outside the {} arena: offset {}, {} bytes of {}", who, name_of(place.tier), place.offset,
             place.bytes, arena);
    }
  }

  void check_copy(int32_t i) {
    const Instruction& instruction = at(i);
    const size_t inputs = instruction.guard == kNone ? 1 : 2;
    if (instruction.inputs.size() != inputs || instruction.outputs.size() != 1 ||
        instruction.inputs[0].value != instruction.outputs[0].value) {
      report("instruction {} copies something else than one value to one place", i);
      return;
    }
    for (const Operand& input : instruction.inputs) check_operand(describe(i), input);
    check_operand(describe(i), instruction.outputs[0]);
    if (instruction.guard != kNone) check_guard(i);
    static const std::map<std::pair<Tier, Tier>, Lane> kLaneOf = {
        {{Tier::kHost, Tier::kDevice}, Lane::kHostToDevice}, {{Tier::kDevice, Tier::kHost}, Lane::kDeviceToHost},
        {{Tier::kDisk, Tier::kDevice}, Lane::kDiskRead},     {{Tier::kDisk, Tier::kHost}, Lane::kDiskRead},
        {{Tier::kDevice, Tier::kDisk}, Lane::kDiskWrite},    {{Tier::kHost, Tier::kDisk}, Lane::kDiskWrite},
        {{Tier::kFiles, Tier::kDevice}, Lane::kDiskRead},    {{Tier::kFiles, Tier::kHost}, Lane::kDiskRead}};
    const auto found = kLaneOf.find({instruction.inputs[0].place.tier, instruction.outputs[0].place.tier});
    if (found == kLaneOf.end() || found->second != instruction.lane) {
      report("{} from {} to {} on lane {}", describe(i), name_of(instruction.inputs[0].place.tier),
             name_of(instruction.outputs[0].place.tier), name_of(instruction.lane));
    }
    if (!meets_disk(instruction)) return;
    for (const Place& place : {instruction.inputs[0].place, instruction.outputs[0].place}) {
      const Place whole = padded(place);
      if (place.offset % kDiskAlignment != 0) report("{} is not aligned to blocks of the disk", describe(i));
      check_place(describe(i) + " in whole blocks", whole);
    }
  }

  // Checks that a guard's numbers are there, in the memory of the device that makes them.
  void check_guard(int32_t i) {
    const Operand& offsets = at(i).inputs[1];
    if (offsets.value < 0 || offsets.value >= static_cast<ValueId>(graph_.values.size())) return;  // reported
    const ValueType& type = graph_.value(offsets.value).type;
    if (type.dtype != DType::kI32 || at(i).guard < 0 || at(i).guard + 1 >= type.shape.elems())
      report("{} has number {} of {} for a guard", describe(i), at(i).guard, name(offsets.value));
    if (offsets.place.tier != Tier::kDevice) report("{} has a guard outside device memory", describe(i));
  }

  // Checks that operations compute on the memory of their lane, and that nothing writes to the user's files.
  void check_tiers(int32_t i) {
    const Instruction& instruction = at(i);
    for (const Operand& output : instruction.outputs) {
      if (output.place.tier == Tier::kFiles) report("{} writes to the user's files", describe(i));
    }
    if (instruction.kind == Instruction::Kind::kCopy || instruction.op < 0 ||
        instruction.op >= static_cast<OpId>(graph_.ops.size()))
      return;
    const bool together = graph_.op(instruction.op).def->collective != nullptr;
    const bool fits = together ? instruction.lane == Lane::kPeer
                               : instruction.lane == Lane::kCompute || instruction.lane == Lane::kHostCompute;
    if (!fits) {
      report("{} runs on lane {}", describe(i), name_of(instruction.lane));
      return;
    }
    const Tier first = instruction.outputs.empty() ? Tier::kDevice : instruction.outputs[0].place.tier;
    const Tier of_rank = first == Tier::kHost ? Tier::kHost : Tier::kDevice;
    const Tier tier = together ? of_rank : instruction.lane == Lane::kCompute ? Tier::kDevice : Tier::kHost;
    const auto elsewhere = [&](const Operand& o) { return o.value != kNone && o.place.tier != tier; };
    if (std::any_of(instruction.inputs.begin(), instruction.inputs.end(), elsewhere) ||
        std::any_of(instruction.outputs.begin(), instruction.outputs.end(), elsewhere) ||
        (instruction.workspace.bytes > 0 && instruction.workspace.tier != tier)) {
      report("{} on lane {} has operands outside {} memory", describe(i), name_of(instruction.lane), name_of(tier));
    }
  }

  // Checks that collectives run in the graph's order, which is that of all ranks, whatever their plans; else they wait
  // for each other for ever, or add up what does not belong together. Those that run again in a later section follow
  // the plan, which ranks then have in common.
  void check_collectives() {
    OpId last = kNone;
    for (int32_t i = 0; i < std::ssize(program_.instructions); ++i) {
      if (at(i).lane != Lane::kPeer || at(i).recompute) continue;
      if (at(i).op < last) report("{} comes after {}", describe(i), graph_.op(last).def->name);
      last = std::max(last, at(i).op);
    }
  }

  // Checks one instruction: outputs and workspace overlap nothing, except whole in-place sharing that the operation
  // allows.
  void check_sharing(int32_t i, const Operation& op) {
    const Instruction& instruction = at(i);
    for (size_t a = 0; a < instruction.outputs.size(); ++a) {
      const Place& output = instruction.outputs[a].place;
      for (size_t b = a + 1; b < instruction.outputs.size(); ++b) {
        if (overlap(output, instruction.outputs[b].place))
          report("{} writes two outputs to the same bytes", describe(i));
      }
      for (size_t b = 0; b < instruction.inputs.size(); ++b) {
        if (instruction.inputs[b].value == kNone || !overlap(output, instruction.inputs[b].place)) continue;
        const bool allowed = std::any_of(op.def->in_place.begin(), op.def->in_place.end(), [&](const InPlace& rule) {
          return static_cast<size_t>(rule.output) == a && static_cast<size_t>(rule.input) == b;
        });
        if (!allowed || output != instruction.inputs[b].place)
          report("{} overwrites its own input {}", describe(i), name(instruction.inputs[b].value));
      }
      if (overlap(output, instruction.workspace)) report("{} has an output in its workspace", describe(i));
    }
    for (const Operand& input : instruction.inputs) {
      if (input.value != kNone && overlap(input.place, instruction.workspace))
        report("{} has an input in its workspace", describe(i));
    }
  }

  // Computes vector clocks: clock[i][lane] is how many instructions of that lane have certainly finished when i starts;
  // its own position counts itself, as seen by instructions that wait for i.
  void order_instructions() {
    clocks_.resize(program_.instructions.size());
    positions_.resize(program_.instructions.size());
    for (const SectionRange& section : program_.sections) {
      std::array<Clock, kLanes> lanes{};
      std::array<int32_t, kLanes> counts{};
      for (int32_t i = section.begin; i < section.end; ++i) {
        const Lane lane = at(i).lane;
        Clock clock = nth(lanes, lane);
        for (const int32_t other : at(i).waits) {
          if (other < section.begin) continue;  // sections do not overlap in time
          for (size_t l = 0; l < kLanes; ++l) clock[l] = std::max(clock[l], nth(clocks_, other)[l]);
        }
        nth(positions_, i) = nth(clock, lane) = ++nth(counts, lane);
        nth(clocks_, i) = nth(lanes, lane) = clock;
      }
    }
  }

  [[nodiscard]] bool finished_before(int32_t earlier, int32_t later) const {
    return nth(nth(clocks_, later), at(earlier).lane) >= nth(positions_, earlier);
  }

  void place_homes() {
    for (const Operand& home : program_.homes) {
      if (home.place.tier == Tier::kFiles && graph_.value(home.value).kind != ValueKind::kFrozenWeight)
        report("{} lives in the user's files", name(home.value));
      if (graph_.value(home.value).producer != kNone)
        report("{} has a home, but an operation makes it", name(home.value));
      if (memory(home.place).write(home.place.offset, home.place.bytes, home.value, kNone)) {
        report("the home of {} overlaps another", name(home.value));
      }
      homes_[home.value] = home.place;
    }
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      if (graph_.value(id).producer == kNone && !homes_.count(id)) report("{} has no home", name(id));
    }
  }

  // The host fills the batch values; only persistent values survive from the step before.
  void begin_micro_step() {
    for (ByteMap& map : memory_) map.clear();
    for (const auto& [id, place] : homes_) (void)memory(place).write(place.offset, place.bytes, id, kNone);
  }

  void replay(Repeats repeats) {
    for (SectionId section = 0; section < static_cast<SectionId>(graph_.sections.size()); ++section) {
      const SectionRange& range = nth(program_.sections, section);
      if (range.repeats != repeats) continue;
      for (ByteMap& map : memory_) map.forget_accesses();
      for (int32_t i = range.begin; i < range.end; ++i) execute(i);
      for (size_t k = 0; k < program_.results.size(); ++k) check_result(k, section);
      check_homes(section);
    }
  }

  void execute(int32_t i) {
    const Instruction& instruction = at(i);
    for (size_t k = 0; k < instruction.inputs.size(); ++k) {
      if (instruction.inputs[k].value != kNone) read(i, k);
    }
    if (instruction.workspace.bytes > 0) touch(i, instruction.workspace, kNone);
    if (meets_disk(instruction)) {
      // The last block is read and overwritten whole; the bytes beyond the value do not matter, but must not change
      // while it is on its way.
      check_written(i, memory(instruction.inputs[0].place), padded(instruction.inputs[0].place));
      touch(i, padded(instruction.outputs[0].place), kNone);
    }
    for (const Operand& output : instruction.outputs) touch(i, output.place, output.value);
  }

  void read(int32_t i, size_t input) {
    const Operand& operand = at(i).inputs[input];
    const Place& place = operand.place;
    const ByteMap::Found found = memory(place).read(place.offset, place.bytes, operand.value, i);
    if (!found.whole)
      report("{} reads {}, but its bytes hold {}", describe(i), name(operand.value),
             found.instead == kNone ? "nothing" : name(found.instead));
    report_unfinished(i, found.writers);
    for (const int32_t writer : found.writers)
      if (writer != kNone && at(writer).guard != kNone && !has_guard_of(i, input, writer))
        report("{} reads {}, which {} may not have brought", describe(i), name(operand.value), describe(writer));
  }

  // Returns true if an instruction reads an input only where the copy that brought it has moved it.
  [[nodiscard]] bool has_guard_of(int32_t i, size_t input, int32_t copy) const {
    if (at(i).kind == Instruction::Kind::kCopy) return false;
    const std::optional<Guard> guard = guard_of(graph_, at(i).op, static_cast<int>(input));
    return guard && guard->index == at(copy).guard &&
           nth(at(i).inputs, guard->offsets).value == at(copy).inputs[1].value;
  }

  // Reads whatever the bytes hold.
  void check_written(int32_t i, ByteMap& map, const Place& place) {
    report_unfinished(i, map.read(place.offset, place.bytes, kNone, i).writers);
  }

  void report_unfinished(int32_t i, const std::vector<int32_t>& writers) {
    for (const int32_t writer : writers) {
      if (writer != kNone && !finished_before(writer, i))
        report("{} reads bytes without waiting for {}", describe(i), describe(writer));
    }
  }

  void touch(int32_t i, const Place& place, ValueId value) {
    for (const int32_t other : memory(place).accesses(place.offset, place.bytes)) {
      if (other != i && !finished_before(other, i))
        report("{} overwrites bytes without waiting for {}", describe(i), describe(other));
    }
    (void)memory(place).write(place.offset, place.bytes, value, i);
  }

  void check_result(size_t k, SectionId section) {
    const Operand& result = program_.results[k];
    if (result.value != graph_.results[k]) {
      report("result {} is another value than the graph's", k);
    } else if (graph_.op(graph_.value(result.value).producer).section == section &&
               !memory(result.place).read(result.place.offset, result.place.bytes, result.value, kNone).whole) {
      report("result {} is gone at the end of its section", name(result.value));
    }
  }

  // Checks that after the sections up to this one, each home holds the last version of its value that they make.
  void check_homes(SectionId section) {
    std::map<ValueId, ValueId> last;
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const OpId producer = graph_.value(id).producer;
      if (producer != kNone && graph_.op(producer).section > section) continue;
      if (const ValueId root = graph_.persistent_root(id); root != kNone) last[root] = id;
    }
    for (const auto& [root, version] : last) {
      const auto home = homes_.find(root);
      if (home == homes_.end()) continue;  // reported by place_homes
      if (!memory(home->second).read(home->second.offset, home->second.bytes, version, kNone).whole) {
        report("{} is not at home at the end of the {} section", name(version), section_name(section));
      }
    }
  }

  ByteMap& memory(const Place& place) { return nth(memory_, place.tier); }

  using Clock = std::array<int32_t, kLanes>;

  const Graph& graph_;
  const Program& program_;
  std::vector<std::string> violations_;
  std::vector<Clock> clocks_;
  std::vector<int32_t> positions_;
  std::array<ByteMap, kTiers> memory_;
  std::map<ValueId, Place> homes_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph, const Program& program, const Budget& budget) {
  return ProgramVerifier(graph, program).run(budget);
}

std::vector<std::string> verify_shared_homes(const Graph& first_graph, const Program& first, const Graph& graph,
                                             const Program& program) {
  std::map<std::string_view, Place> places;
  for (const Operand& home : program.homes) places[graph.value(home.value).name] = home.place;
  std::vector<std::string> violations;
  for (const Operand& home : first.homes) {
    if (!first_graph.is_persistent(home.value)) continue;
    const std::string& name = first_graph.value(home.value).name;
    const auto found = places.find(name);
    if (found == places.end() || found->second != home.place)
      violations.push_back(fmt::format("{} has its home elsewhere in {}", name, graph.name));
  }
  return violations;
}

}  // namespace spillway

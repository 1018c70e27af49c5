#include "report/operation_time.h"

#include <algorithm>
#include <map>

#include "graph/operation.h"

namespace spillway {

std::vector<OperationTime> time_by_operation(const Graph& graph, const Program& program, const Executor& executor,
                                             const std::vector<OperationTime>& before) {
  std::map<std::string_view, OperationTime> by_name;
  for (const OperationTime& time : before) by_name[time.name] = time;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].kind != Instruction::Kind::kRun) continue;
    const std::string_view name = graph.op(program.instructions[i].op).def->name;
    OperationTime& time = by_name[name];
    time.name = name;
    time.calls += executor.profile()[i].calls;
    time.seconds += executor.profile()[i].seconds;
  }
  std::vector<OperationTime> result;
  for (const auto& [name, time] : by_name) result.push_back(time);
  std::stable_sort(result.begin(), result.end(),
                   [](const OperationTime& a, const OperationTime& b) { return a.seconds > b.seconds; });
  return result;
}

}  // namespace spillway

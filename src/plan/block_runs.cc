#include "plan/block_runs.h"

namespace spillway {
namespace {

void add(BlockRun& run, const BlockChoice& choice, size_t count) {
  run.end += count;
  for (auto& [kind, blocks] : run.kinds) {
    if (kind != choice) continue;
    blocks += count;
    return;
  }
  run.kinds.emplace_back(choice, count);
}

std::vector<BlockRun> alike(const std::vector<BlockChoice>& blocks) {
  std::vector<BlockRun> runs;
  for (size_t block = 0; block < blocks.size(); ++block) {
    if (runs.empty() || runs.back().kinds.front().first != blocks[block])
      runs.push_back({.begin = block, .end = block, .kinds = {}});
    add(runs.back(), blocks[block], 1);
  }
  return runs;
}

}  // namespace

std::vector<BlockRun> runs_of(const std::vector<BlockChoice>& blocks) {
  constexpr size_t kMaxKinds = 3, kRunsPerKind = 3;
  const std::vector<BlockRun> runs = alike(blocks);
  std::vector<BlockRun> result;
  for (size_t first = 0; first < runs.size();) {
    BlockRun merged = runs[first];
    size_t next = first + 1;
    for (; next < runs.size(); ++next) {
      BlockRun longer = merged;
      add(longer, runs[next].kinds[0].first, runs[next].end - runs[next].begin);
      if (longer.kinds.size() > kMaxKinds) break;
      merged = std::move(longer);
    }
    const bool is_shorter = next - first > kRunsPerKind * merged.kinds.size();
    result.push_back(is_shorter ? merged : runs[first]);
    first = is_shorter ? next : first + 1;
  }
  return result;
}

}  // namespace spillway

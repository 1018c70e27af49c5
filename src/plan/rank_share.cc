#include "plan/rank_share.h"

#include <numeric>

#include "plan/moved_bytes.h"

namespace spillway {

RankShare rank_share(const Graph& graph, const Program& program, const PlanContext& context) {
  RankShare share;
  for (const Operand& home : program.homes) {
    if (graph.is_persistent(home.value))
      nth(nth(share.holds, home.place.tier), graph.value(home.value).kind) += home.place.bytes;
  }
  const MovedBytes moved = moved_bytes(graph, program, context);
  const ClassBytes& sent = nth(moved, Lane::kPeer);
  share.sent_bytes_per_step = std::accumulate(sent.begin(), sent.end(), int64_t{0});
  return share;
}

}  // namespace spillway

#include "text/grammar/byte_automaton.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/index.h"

namespace spillway::text {

ByteAutomaton::ByteAutomaton(ByteGrammar grammar) : grammar_(std::move(grammar)) {
  std::array<bool, 257> begins{};
  for (NodeId node = 0; node < grammar_.node_count(); ++node) {
    for (const ByteGrammar::Edge& edge : grammar_.edges_of(node)) {
      if (edge.called >= 0 || edge.is_empty()) continue;
      nth(begins, edge.low) = true;
      nth(begins, edge.high + 1) = true;
    }
  }
  uint8_t next = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++next;
    class_of_[byte] = next;
  }
  classes_ = size_t{next} + 1;
  forget();
}

void ByteAutomaton::forget() {
  stacks_.clear();
  stack_of_.clear();
  state_of_.clear();
  ways_.clear();
  is_whole_.clear();
  steps_.clear();
  (void)state_of({{grammar_.first_of(grammar_.root()), kBottom}});
}

int32_t ByteAutomaton::push(NodeId back, int32_t below) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(back)} << 32 | static_cast<uint32_t>(below);
  const auto [found, is_new] = stack_of_.emplace(key, static_cast<int32_t>(stacks_.size()));
  if (is_new) stacks_.push_back({back, below});
  return found->second;
}

// Follows the edges without bytes, into rules and out of them, and keeps the ways at which a byte comes next. A call at
// the end of a rule returns to where that rule returns, so that lists do not grow the stack.
ByteAutomaton::State ByteAutomaton::state_of(std::vector<Way> open) {
  std::set<Way> seen(open.begin(), open.end());
  const auto visit = [&](NodeId node, int32_t stack) {
    if (seen.size() < kMaxWays * 16 && seen.insert({node, stack}).second) open.push_back({node, stack});
  };
  std::vector<Way> ways;
  bool is_whole = false;
  while (!open.empty()) {
    const auto [node, stack] = open.back();
    open.pop_back();
    if (grammar_.is_last(node)) {
      if (stack == kBottom) {
        is_whole = true;
      } else {
        const Frame frame = nth(stacks_, stack);
        visit(frame.back, frame.below);
      }
      continue;
    }
    bool reads = false;
    for (const ByteGrammar::Edge& edge : grammar_.edges_of(node)) {
      if (edge.called >= 0) {
        visit(grammar_.first_of(edge.called), grammar_.is_last(edge.target) ? stack : push(edge.target, stack));
      } else if (edge.is_empty()) {
        visit(edge.target, stack);
      } else {
        reads = true;
      }
    }
    if (reads) ways.push_back({node, stack});
  }
  if (ways.empty() && !is_whole) return kDead;
  std::sort(ways.begin(), ways.end());
  if (ways.size() > kMaxWays) ways.resize(kMaxWays);
  if (is_whole) ways.push_back({-1, kBottom});  // tells it from the state that is not whole
  const auto [found, is_new] = state_of_.emplace(std::move(ways), static_cast<State>(ways_.size()));
  if (is_new) {
    ways_.push_back(&found->first);
    is_whole_.push_back(is_whole);
    steps_.resize(steps_.size() + classes_, kUnknown);
  }
  return found->second;
}

ByteAutomaton::State ByteAutomaton::find_step(State state, uint8_t byte) {
  std::vector<Way> next;
  for (const Way& way : *nth(ways_, state)) {
    if (way.node < 0) continue;
    for (const ByteGrammar::Edge& edge : grammar_.edges_of(way.node)) {
      if (edge.called < 0 && edge.low <= byte && byte <= edge.high) next.push_back({edge.target, way.stack});
    }
  }
  const State found = next.empty() ? kDead : state_of(std::move(next));
  steps_[index(state, byte)] = found;
  return found;
}

}  // namespace spillway::text

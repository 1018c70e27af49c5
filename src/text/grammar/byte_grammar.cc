#include "text/grammar/byte_grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace spillway::text {

RuleId ByteGrammar::add_rule() {
  rules_.emplace_back();
  return static_cast<RuleId>(rules_.size()) - 1;
}

// The last node is one of its own, since an end may have edges back into the part.
void ByteGrammar::define(RuleId rule, GrammarPart part) {
  SPILLWAY_CHECK(nth(rules_, rule).part.begin < 0, "rule {} is defined", rule);
  const NodeId last = add_node();
  nth(nodes_, last).is_last = true;
  connect(part.end, last);
  nth(rules_, rule).part = {part.begin, last};
}

NodeId ByteGrammar::add_node() {
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size()) - 1;
}

void ByteGrammar::connect(NodeId from, NodeId to) { nth(nodes_, from).edges.push_back({.target = to}); }

void ByteGrammar::connect(NodeId from, GrammarPart part, NodeId to) {
  connect(from, part.begin);
  connect(part.end, to);
}

GrammarPart ByteGrammar::nothing() {
  const NodeId node = add_node();
  return {node, node};
}

GrammarPart ByteGrammar::bytes(uint8_t low, uint8_t high) {
  const NodeId begin = add_node(), end = add_node();
  nth(nodes_, begin).edges.push_back({.target = end, .low = low, .high = high});
  return {begin, end};
}

GrammarPart ByteGrammar::text(std::string_view text) {
  GrammarPart part = nothing();
  for (const char c : text) {
    const NodeId next = add_node();
    const auto byte = static_cast<uint8_t>(c);
    nth(nodes_, part.end).edges.push_back({.target = next, .low = byte, .high = byte});
    part.end = next;
  }
  return part;
}

GrammarPart ByteGrammar::call(RuleId rule) {
  const NodeId begin = add_node(), end = add_node();
  nth(nodes_, begin).edges.push_back({.target = end, .called = rule});
  return {begin, end};
}

GrammarPart ByteGrammar::sequence(const std::vector<GrammarPart>& parts) {
  GrammarPart whole = nothing();
  for (const GrammarPart& part : parts) {
    connect(whole.end, part.begin);
    whole.end = part.end;
  }
  return whole;
}

GrammarPart ByteGrammar::any_of(const std::vector<GrammarPart>& parts) {
  const NodeId begin = add_node(), end = add_node();
  for (const GrammarPart& part : parts) connect(begin, part, end);
  return {begin, end};
}

GrammarPart ByteGrammar::repeated(RuleId rule, int64_t min, int64_t max) {
  const NodeId begin = add_node(), end = add_node();
  NodeId at = begin;
  for (int64_t count = 0;; ++count) {
    if (count >= min) connect(at, end);
    if (count == max) break;
    const GrammarPart once = call(rule);
    connect(at, once.begin);
    at = once.end;
    if (max != kUnbounded || count + 1 < min) continue;
    connect(at, end);
    connect(at, once.begin);
    break;
  }
  return {begin, end};
}

NodeId ByteGrammar::first_of(RuleId rule) const { return nth(rules_, rule).part.begin; }
const std::vector<ByteGrammar::Edge>& ByteGrammar::edges_of(NodeId node) const { return nth(nodes_, node).edges; }
bool ByteGrammar::is_last(NodeId node) const { return nth(nodes_, node).is_last; }

namespace {

// Returns the nodes from which `is_end` nodes can be reached along edges that `passes` takes.
template <typename IsEnd, typename Passes>
std::vector<bool> nodes_before(const ByteGrammar& grammar, const IsEnd& is_end, const Passes& passes) {
  std::vector<std::vector<NodeId>> before(static_cast<size_t>(grammar.node_count()));
  std::vector<bool> found(before.size());
  std::vector<NodeId> open;
  for (NodeId node = 0; node < grammar.node_count(); ++node) {
    for (const ByteGrammar::Edge& edge : grammar.edges_of(node)) {
      if (passes(edge)) nth(before, edge.target).push_back(node);
    }
    if (!is_end(node)) continue;
    found[static_cast<size_t>(node)] = true;
    open.push_back(node);
  }
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    for (const NodeId one : nth(before, node)) {
      if (found[static_cast<size_t>(one)]) continue;
      found[static_cast<size_t>(one)] = true;
      open.push_back(one);
    }
  }
  return found;
}

}  // namespace

std::vector<bool> ByteGrammar::nodes_before_an_end(const std::vector<bool>& rules) const {
  return nodes_before(
      *this, [&](NodeId node) { return is_last(node); },
      [&](const Edge& edge) { return edge.called < 0 || rules[static_cast<size_t>(edge.called)]; });
}

// A rule has a text if its end can be reached by way of rules that have one.
std::vector<bool> ByteGrammar::rules_with_texts() const {
  std::vector<bool> rules(rules_.size());
  for (bool has_changed = true; std::exchange(has_changed, false);) {
    const std::vector<bool> nodes = nodes_before_an_end(rules);
    for (size_t rule = 0; rule < rules.size(); ++rule) {
      if (rules[rule] || !nodes[static_cast<size_t>(rules_[rule].part.begin)]) continue;
      rules[rule] = has_changed = true;
    }
  }
  return rules;
}

// Returns the nodes from which the end of their rule can be reached without a byte.
std::vector<bool> ByteGrammar::nodes_that_may_be_empty() const {
  std::vector<bool> nodes(nodes_.size());
  for (bool has_changed = true; std::exchange(has_changed, false);) {
    std::vector<bool> more = nodes_before(
        *this, [&](NodeId node) { return is_last(node); },
        [&](const Edge& edge) {
          return edge.is_empty() || (edge.called >= 0 && nodes[static_cast<size_t>(first_of(edge.called))]);
        });
    has_changed = more != nodes;
    nodes = std::move(more);
  }
  return nodes;
}

// Follows the calls that may come before the first byte: a cycle of them would be followed for ever.
void ByteGrammar::check_that_reading_goes_on(std::string_view where) const {
  const std::vector<bool> may_be_empty = nodes_that_may_be_empty();
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(rules_.size(), State::kNew);
  std::vector<std::vector<RuleId>> first_calls(rules_.size());
  for (size_t rule = 0; rule < rules_.size(); ++rule) {
    std::vector<NodeId> open = {rules_[rule].part.begin};
    std::vector<bool> seen(nodes_.size());
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (seen[static_cast<size_t>(node)]) continue;
      seen[static_cast<size_t>(node)] = true;
      for (const Edge& edge : edges_of(node)) {
        if (edge.called >= 0) first_calls[rule].push_back(edge.called);
        if (edge.is_empty() || (edge.called >= 0 && may_be_empty[static_cast<size_t>(first_of(edge.called))]))
          open.push_back(edge.target);
      }
    }
  }
  for (RuleId root = 0; root < static_cast<RuleId>(rules_.size()); ++root) {
    std::vector<std::pair<RuleId, size_t>> path;
    if (nth(states, root) == State::kNew) path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      nth(states, rule) = State::kOpen;
      if (next == nth(first_calls, rule).size()) {
        nth(states, rule) = State::kDone;
        path.pop_back();
        continue;
      }
      const RuleId called = nth(first_calls, rule)[next++];
      if (nth(states, called) == State::kOpen)
        throw input_error(where,
                          "expected a schema that says something before it refers back to itself, got a $ref "
                          "that leads to where it stands; correct it");
      if (nth(states, called) == State::kNew) path.emplace_back(called, 0);
    }
  }
}

void ByteGrammar::finish(RuleId root, std::string_view where) {
  root_ = root;
  const std::vector<bool> rules = rules_with_texts();
  if (!rules[static_cast<size_t>(root)])
    throw input_error(where, "expected a schema that some document fulfils, got one that none can; correct it");
  const std::vector<bool> nodes = nodes_before_an_end(rules);
  for (Node& node : nodes_) {
    std::erase_if(node.edges, [&](const Edge& edge) {
      return !nodes[static_cast<size_t>(edge.target)] || (edge.called >= 0 && !rules[static_cast<size_t>(edge.called)]);
    });
  }
  check_that_reading_goes_on(where);
}

}  // namespace spillway::text

// A context-free grammar over bytes: rules that call each other. A rule is a graph of nodes; a text is in the rule if
// its bytes lead from the rule's first node to its last one.
//
//   ByteGrammar grammar;
//   const RuleId digit = grammar.add_rule(), number = grammar.add_rule();
//   grammar.define(digit, grammar.bytes('0', '9'));
//   grammar.define(number, grammar.repeated(digit, 1, 15));
//   grammar.finish(number, "request: response_format");
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace spillway::text {

using RuleId = int32_t;
using NodeId = int32_t;

class ByteGrammar {
 public:
  // A part of a rule's graph, entered at `begin` and left at `end`. Each belongs to one place of one rule.
  struct Part {
    NodeId begin, end;
  };
  struct Edge {
    NodeId target;
    RuleId called = -1;          // a text of this rule leads along the edge
    int16_t low = 0, high = -1;  // or else one of these bytes; without any, nothing
    [[nodiscard]] bool is_empty() const { return called < 0 && high < low; }
  };
  static constexpr int64_t kUnbounded = -1;

  [[nodiscard]] RuleId add_rule();
  // Defines a rule, once.
  void define(RuleId rule, Part part);

  [[nodiscard]] Part nothing();  // matches the empty text
  [[nodiscard]] Part bytes(uint8_t low, uint8_t high);
  [[nodiscard]] Part text(std::string_view text);
  [[nodiscard]] Part call(RuleId rule);
  [[nodiscard]] Part sequence(const std::vector<Part>& parts);
  [[nodiscard]] Part any_of(const std::vector<Part>& parts);  // of none: matches no text at all
  [[nodiscard]] Part optional(Part part) { return any_of({part, nothing()}); }
  // Matches from `min` to `max` texts of the rule, one after another.
  [[nodiscard]] Part repeated(RuleId rule, int64_t min, int64_t max);

  // For parts that are no tree: a new node, and edges between nodes.
  [[nodiscard]] NodeId add_node();
  void connect(NodeId from, NodeId to);
  void connect(NodeId from, Part part, NodeId to);

  // Makes `root` the rule of whole texts, and removes what no whole text leads through: after that, whatever has been
  // read can be completed. REQUIRES: every rule is defined. Throws InputError at `where` if no text is in the rule, or
  // if a rule calls itself before it reads a byte.
  void finish(RuleId root, std::string_view where);

  [[nodiscard]] int64_t node_count() const { return static_cast<int64_t>(nodes_.size()); }
  [[nodiscard]] RuleId root() const { return root_; }
  [[nodiscard]] NodeId first_of(RuleId rule) const;
  [[nodiscard]] const std::vector<Edge>& edges_of(NodeId node) const;
  // Returns true if a rule's texts end at this node. Such a node has no edges.
  [[nodiscard]] bool is_last(NodeId node) const;

 private:
  struct Node {
    std::vector<Edge> edges;
    bool is_last = false;
  };
  struct Rule {
    Part part{-1, -1};
  };

  [[nodiscard]] std::vector<bool> rules_with_texts() const;
  [[nodiscard]] std::vector<bool> nodes_before_an_end(const std::vector<bool>& rules) const;
  [[nodiscard]] std::vector<bool> nodes_that_may_be_empty() const;
  void check_that_reading_goes_on(std::string_view where) const;

  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  RuleId root_ = -1;
};

using GrammarPart = ByteGrammar::Part;

}  // namespace spillway::text

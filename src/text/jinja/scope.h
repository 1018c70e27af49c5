// Declarations that the two halves of the interpreter (statements, expressions) share beside its header.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/interpreter.h"

namespace spillway::text::jinja {

// The names that a block has set. Lookups go outwards; assignments stay inside.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> names;  // the views are into the template

  Value* find(std::string_view name) {
    for (auto& [have, value] : names) {
      if (have == name) return &value;
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    if (Value* have = find(name)) {
      *have = std::move(value);
    } else {
      names.emplace_back(name, std::move(value));
    }
  }
};

// The limit of the interpreter's own recursion: deep expressions in macros that call themselves.
constexpr int kMaxRecursion = 800;

class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& owner) : owner_(owner) {
    owner_.runtime_.budget.spend(1);
    if (++owner_.depth_ > kMaxRecursion) {
      --owner_.depth_;
      throw Failure{"expected macros that end, got one that calls itself too deep"};
    }
  }
  ~Deeper() { --owner_.depth_; }

 private:
  Interpreter& owner_;
};

}  // namespace spillway::text::jinja

// The `loop` variable of a for block.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace spillway::text::jinja {

// Walks a sequence, applying the for block's condition as late as Jinja does: when an item is requested.
class Loop : public WithAttributes {
 public:
  using Condition = std::function<bool(const Value& item)>;
  using Recursion = std::function<Value(const Value& iterable)>;

  // `depth` counts recursive loops from 0. A null `condition` accepts all items; a null `recursion` refuses loop(...).
  Loop(std::vector<Value> items, int depth, Condition condition, Recursion recursion)
      : items_(std::move(items)), depth_(depth), condition_(std::move(condition)), recursion_(std::move(recursion)) {}

  // Returns the next item that the condition accepts.
  [[nodiscard]] std::optional<Value> next();
  // Drops references to the for block and its items, after the loop.
  void finish();

  [[nodiscard]] std::string_view type_name() const override { return "LoopContext"; }
  [[nodiscard]] Value call(Runtime& runtime, const Arguments& arguments) override;
  [[nodiscard]] std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;

 private:
  [[nodiscard]] std::optional<Value> take();
  [[nodiscard]] const std::optional<Value>& peek();
  [[nodiscard]] int64_t length();
  [[nodiscard]] Value cycle() const;
  [[nodiscard]] Value changed();

  std::vector<Value> items_;
  size_t at_ = 0;
  int depth_;
  Condition condition_;
  Recursion recursion_;
  int64_t index0_ = -1;
  std::optional<Value> previous_, current_, ahead_;
  std::optional<int64_t> length_;
  // The last value of loop.changed, as text: holding values here could chain loops without end.
  std::shared_ptr<std::string> watched_ = std::make_shared<std::string>();
};

}  // namespace spillway::text::jinja

#include "text/jinja/loop.h"

namespace spillway::text::jinja {
namespace {

struct LoopMethod : Callable {
  using Body = std::function<Value(Runtime& runtime, const Arguments& arguments)>;
  explicit LoopMethod(Body function) : body(std::move(function)) {}
  [[nodiscard]] std::string_view type_name() const override { return "method"; }
  [[nodiscard]] Value call(Runtime& runtime, const Arguments& arguments) override { return body(runtime, arguments); }
  Body body;
};

}  // namespace

std::optional<Value> Loop::take() {
  while (at_ < items_.size()) {
    const Value& item = items_[at_++];
    if (!condition_ || condition_(item)) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& Loop::peek() {
  if (!ahead_) ahead_ = take();
  return ahead_;
}

std::optional<Value> Loop::next() {
  std::optional<Value> item = ahead_ ? std::exchange(ahead_, std::nullopt) : take();
  previous_ = std::move(current_);
  current_ = item;
  ++index0_;
  return item;
}

void Loop::finish() {
  condition_ = nullptr;
  recursion_ = nullptr;
  items_.clear();
  at_ = 0;
  previous_ = current_ = ahead_ = std::nullopt;
}

int64_t Loop::length() {
  if (length_) return *length_;
  if (condition_) {
    std::vector<Value> rest;
    while (auto item = take()) rest.push_back(std::move(*item));
    items_ = std::move(rest);
    at_ = 0;
    condition_ = nullptr;
    length_ = index0_ + 1 + (ahead_ ? 1 : 0) + static_cast<int64_t>(items_.size());
  } else {
    length_ = static_cast<int64_t>(items_.size());
  }
  return *length_;
}

Value Loop::call(Runtime&, const Arguments& arguments) {
  if (!recursion_) throw Failure{"The loop must have the 'recursive' marker to be called recursively."};
  return recursion_(bind("loop", arguments, {{"iterable"}})[0]);
}

Value Loop::cycle() const {
  return Value(
      std::shared_ptr<Object>(std::make_shared<LoopMethod>([at = index0_](Runtime&, const Arguments& arguments) {
        if (arguments.positional.empty()) throw Failure{"no items for cycling given"};
        return arguments.positional[static_cast<size_t>(at) % arguments.positional.size()];
      })));
}

Value Loop::changed() {
  return Value(std::shared_ptr<Object>(
      std::make_shared<LoopMethod>([watched = watched_](Runtime& runtime, const Arguments& arguments) {
        std::string now = repr(make_sequence(arguments.positional, Sequence::Kind::kTuple), runtime.budget);
        const bool changed = now != *watched;
        *watched = std::move(now);
        return Value(changed);
      })));
}

std::optional<Value> Loop::attribute(Runtime&, std::string_view name) {
  const auto or_undefined = [&](const std::optional<Value>& item, const char* what) {
    return item ? *item : make_undefined(what);
  };
  if (name == "index0") return Value(index0_);
  if (name == "index") return Value(index0_ + 1);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek().has_value());
  if (name == "length") return Value(length());
  if (name == "revindex") return Value(length() - index0_);
  if (name == "revindex0") return Value(length() - index0_ - 1);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") return or_undefined(previous_, "there is no previous item");
  if (name == "nextitem") return or_undefined(peek(), "there is no next item");
  if (name == "cycle") return cycle();
  if (name == "changed") return changed();
  return std::nullopt;
}

}  // namespace spillway::text::jinja

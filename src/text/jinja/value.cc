#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

constexpr size_t kIndexedDict = 8;

// Returns a text that is equal for keys that Python takes for the same key: 1, 1.0 and True are one.
std::string identity_text(const Value& key) {
  if (key.is_text()) return "s" + key.text();
  if (key.is_none()) return "n";
  if (key.is_bool()) return key.boolean() ? "i1" : "i0";
  if (key.is_int()) return "i" + std::to_string(key.integer());
  if (key.is_big_integer()) return "i" + key.digits();
  if (key.is_float()) {
    const double real = key.real();
    if (real == std::floor(real) && std::fabs(real) < 9e18) return "i" + std::to_string(static_cast<int64_t>(real));
    return "f" + repr_float(real);
  }
  if (key.is_sequence() && key.sequence().kind == Sequence::Kind::kTuple) {
    std::string text = "(";
    for (const Value& item : key.sequence().items) text += identity_text(item) + ",";
    return text;
  }
  if (key.is_object()) return "o" + std::to_string(reinterpret_cast<uintptr_t>(key.object().get()));
  throw Failure{fmt::format("expected a dict key that can be hashed, got '{}'", type_name(key))};
}

int sign(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }

int checked_depth(int deepest_child) {
  if (deepest_child >= kMaxDepth) {
    throw Failure{fmt::format("expected values nested at most {} levels deep, got more", kMaxDepth)};
  }
  return deepest_child + 1;
}

bool equal_items(const std::vector<Value>& left, const std::vector<Value>& right, Budget& budget) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!equal(left[i], right[i], budget)) return false;
  }
  return true;
}

}  // namespace

void Budget::exhausted() {
  throw Failure{
      "expected a template that ends, got one that is still running after its share of steps; "
      "look for a loop or macro that never stops"};
}

bool Value::same(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_undefined()) return undefined().message == other.undefined().message;
  if (is_none()) return true;
  if (is_bool()) return boolean() == other.boolean();
  if (is_int()) return integer() == other.integer();
  if (is_big_integer()) return digits() == other.digits();
  if (is_float()) return real() == other.real();
  if (is_text()) return text() == other.text();
  if (is_sequence()) return &sequence() == &other.sequence();
  if (is_dict()) return &dict() == &other.dict();
  return object() == other.object();
}

int64_t Dict::index_of(const Value& key) const {
  if (entries.size() > kIndexedDict) {
    const auto found = index_.find(identity_text(key));
    return found == index_.end() ? -1 : found->second;
  }
  const std::string wanted = key.is_text() ? std::string() : identity_text(key);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Value& have = entries[i].first;
    const bool match =
        key.is_text() ? have.is_text() && have.text() == key.text() : !have.is_text() && identity_text(have) == wanted;
    if (match) return static_cast<int64_t>(i);
  }
  return -1;
}

const Value* Dict::find(const Value& key) const {
  const int64_t at = index_of(key);
  return at < 0 ? nullptr : &nth(entries, at).second;
}

const Value* Dict::find(std::string_view key) const {
  if (entries.size() > kIndexedDict) return find(Value(key));
  for (const auto& [have, value] : entries) {
    if (have.is_text() && have.text() == key) return &value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const int64_t at = index_of(key);
  depth = std::max(depth, checked_depth(std::max(depth_of(key), depth_of(value))));
  if (at >= 0) {
    nth(entries, at).second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() == kIndexedDict + 1) {
    for (size_t i = 0; i < entries.size(); ++i) index_[identity_text(entries[i].first)] = static_cast<int64_t>(i);
  } else if (entries.size() > kIndexedDict) {
    index_[identity_text(entries.back().first)] = static_cast<int64_t>(entries.size()) - 1;
  }
}

int depth_of(const Value& value) {
  if (value.is_sequence()) return value.sequence().depth;
  if (value.is_dict()) return value.dict().depth;
  return value.is_object() ? value.object()->depth() : 0;
}

Value make_sequence(std::vector<Value> items, Sequence::Kind kind) {
  auto sequence = std::make_shared<Sequence>();
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, depth_of(item));
  sequence->depth = checked_depth(deepest);
  sequence->kind = kind;
  sequence->items = std::move(items);
  return Value(std::move(sequence));
}

Value make_dict(const std::vector<std::pair<Value, Value>>& entries) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : entries) dict->set(key, value);
  return Value(std::move(dict));
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int() || value.is_big_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_text()) return value.is_markup() ? "Markup" : "str";
  if (value.is_dict()) return "dict";
  if (value.is_object()) return value.object()->type_name();
  switch (value.sequence().kind) {
    case Sequence::Kind::kList:
      return "list";
    case Sequence::Kind::kTuple:
      return "tuple";
    case Sequence::Kind::kRange:
      return "range";
    case Sequence::Kind::kKeys:
      return "dict_keys";
    case Sequence::Kind::kValues:
      return "dict_values";
    case Sequence::Kind::kItems:
      return "dict_items";
    case Sequence::Kind::kGenerator:
      return "generator";
  }
  return "object";
}

void fail_undefined(const Value& value) { throw Failure{*value.undefined().message}; }

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_bool()) return value.boolean();
  if (value.is_int()) return value.integer() != 0;
  if (value.is_float()) return value.real() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_dict()) return !value.dict().entries.empty();
  if (value.is_object()) return true;
  return value.sequence().kind == Sequence::Kind::kGenerator || !value.sequence().items.empty();
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.spend(1);
  if (left.is_big_integer() && right.is_big_integer()) return left.digits() == right.digits();
  if (left.is_number() && right.is_number()) {
    if (!left.is_float() && !right.is_float()) return as_integer(left, "") == as_integer(right, "");
    return as_real(left) == as_real(right);
  }
  if (left.is_text() && right.is_text()) {
    budget.spend_bytes(left.text().size());
    return left.text() == right.text();
  }
  if (left.is_undefined() || left.is_none()) {
    return left.is_undefined() == right.is_undefined() && left.is_none() == right.is_none();
  }
  if (left.is_sequence() && right.is_sequence()) {
    const auto &a = left.sequence(), &b = right.sequence();
    if (&a == &b) return true;
    const bool by_items = a.kind == Sequence::Kind::kList || a.kind == Sequence::Kind::kTuple ||
                          a.kind == Sequence::Kind::kRange || a.kind == Sequence::Kind::kKeys;
    return a.kind == b.kind && by_items && equal_items(a.items, b.items, budget);
  }
  if (left.is_dict() && right.is_dict()) {
    if (left.dict().entries.size() != right.dict().entries.size()) return false;
    for (const auto& [key, value] : left.dict().entries) {
      const Value* other = right.dict().find(key);
      if (other == nullptr || !equal(value, *other, budget)) return false;
    }
    return true;
  }
  return left.same(right);
}

int compare(const Value& left, const Value& right, std::string_view op, Budget& budget) {
  budget.spend(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) {
      const double a = as_real(left), b = as_real(right);
      // A NaN compares with nothing: returns a result that makes every ordering false.
      if (std::isnan(a) || std::isnan(b)) return op == "<" || op == "<=" ? 1 : -1;
      return sign(a, b);
    }
    const int64_t a = as_integer(left, ""), b = as_integer(right, "");
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (left.is_text() && right.is_text()) {
    budget.spend_bytes(left.text().size());
    const int order = left.text().compare(right.text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  const auto ordered = [](const Value& value) {
    return value.is_sequence() &&
           (value.sequence().kind == Sequence::Kind::kList || value.sequence().kind == Sequence::Kind::kTuple);
  };
  if (ordered(left) && ordered(right) && left.sequence().kind == right.sequence().kind) {
    const auto &a = left.sequence().items, &b = right.sequence().items;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (!equal(a[i], b[i], budget)) return compare(a[i], b[i], op, budget);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  throw Failure{
      fmt::format("'{}' not supported between instances of '{}' and '{}'", op, type_name(left), type_name(right))};
}

std::vector<Value> items_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return {};
  if (value.is_sequence()) {
    Sequence& sequence = value.sequence();
    budget.spend(static_cast<int64_t>(sequence.items.size()));
    if (sequence.kind != Sequence::Kind::kGenerator) return sequence.items;
    if (sequence.consumed) return {};
    sequence.consumed = true;
    return std::move(sequence.items);
  }
  std::vector<Value> items;
  if (value.is_dict()) {
    budget.spend(static_cast<int64_t>(value.dict().entries.size()));
    for (const auto& entry : value.dict().entries) items.push_back(entry.first);
    return items;
  }
  if (value.is_text()) {
    const std::string& text = value.text();
    budget.spend(static_cast<int64_t>(text.size()));
    for (size_t at = 0; at < text.size();) {
      const size_t length = char_bytes(text, at);
      items.emplace_back(text.substr(at, length));
      at += length;
    }
    return items;
  }
  throw Failure{fmt::format("'{}' object is not iterable", type_name(value))};
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_sequence() || value.is_dict() || value.is_text();
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return char_count(value.text());
  if (value.is_dict()) return static_cast<int64_t>(value.dict().entries.size());
  if (value.is_sequence() && value.sequence().kind != Sequence::Kind::kGenerator) {
    return static_cast<int64_t>(value.sequence().items.size());
  }
  throw Failure{fmt::format("object of type '{}' has no len()", type_name(value))};
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_text()) {
    if (!item.is_text()) {
      if (item.is_undefined()) fail_undefined(item);
      throw Failure{fmt::format("'in <string>' requires string as left operand, not {}", type_name(item))};
    }
    budget.spend_bytes(container.text().size());
    return find_part(container.text(), item.text()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(item) != nullptr;
  if (container.is_sequence() && container.sequence().kind != Sequence::Kind::kGenerator) {
    for (const Value& have : container.sequence().items) {
      if (equal(have, item, budget)) return true;
    }
    return false;
  }
  if (!is_iterable(container)) {
    throw Failure{fmt::format("argument of type '{}' is not iterable", type_name(container))};
  }
  for (const Value& have : items_of(container, budget)) {
    if (equal(have, item, budget)) return true;
  }
  return false;
}

double as_real(const Value& value) {
  if (value.is_float()) return value.real();
  return value.is_int() ? static_cast<double>(value.integer()) : (value.boolean() ? 1.0 : 0.0);
}

int64_t as_integer(const Value& value, std::string_view what) {
  if (value.is_int()) return value.integer();
  if (value.is_bool()) return value.boolean() ? 1 : 0;
  if (value.is_undefined()) fail_undefined(value);
  throw Failure{fmt::format("expected an integer for {}, got '{}'", what, type_name(value))};
}

}  // namespace spillway::text::jinja

// The values of a template: Python's values as Jinja sees them. Values are immutable once built (the sandbox that chat
// templates run in forbids mutation), so copies share their storage; the exceptions are namespaces and generators. Not
// shared between threads: every rendering builds its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace spillway::text::jinja {

class Value;
struct Dict;
struct Object;
struct Sequence;

// An error caused by the template, without its place; the interpreter adds template and line.
struct Failure {
  std::string message;
};

// The work that a rendering may still do. Every operation spends its cost (nodes visited, bytes written), so that a
// template that does not end, or doubles a string for ever, is refused in bounded time and memory.
class Budget {
 public:
  explicit Budget(int64_t steps) : left_(steps) {}
  // Throws Failure if nothing is left.
  void spend(int64_t steps) {
    left_ -= steps;
    if (left_ < 0) exhausted();
  }
  void spend_bytes(size_t bytes) { spend(static_cast<int64_t>(bytes / kBytesPerStep) + 1); }

  static constexpr size_t kBytesPerStep = 16;

 private:
  [[noreturn]] static void exhausted();
  int64_t left_;
};

// A missing name or attribute: falsy, prints as nothing, and any other use is an error with this message.
struct Undefined {
  std::shared_ptr<const std::string> message;
};
struct None {};

// A text in UTF-8. `markup` is the mark that the `safe` and `escape` filters leave: text joined to it is HTML-escaped.
struct Text {
  std::shared_ptr<const std::string> bytes;
  bool markup = false;
};

// An integer that no int64_t holds. It is printed by its digits, and computed with as a float.
struct BigInteger {
  double real = 0;
  std::shared_ptr<const std::string> digits;
};

class Value {
 public:
  Value() : data_(None{}) {}
  Value(None) : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool flag) : data_(flag) {}
  Value(int64_t number) : data_(number) {}
  Value(int number) : data_(int64_t{number}) {}
  Value(double number) : data_(number) {}
  Value(BigInteger number) : data_(std::move(number)) {}
  Value(std::string text, bool markup = false)
      : data_(Text{std::make_shared<const std::string>(std::move(text)), markup}) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Text text) : data_(std::move(text)) {}
  Value(std::shared_ptr<Sequence> sequence) : data_(std::move(sequence)) {}
  Value(std::shared_ptr<Dict> dict) : data_(std::move(dict)) {}
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}

  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<None>(data_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(data_); }
  [[nodiscard]] bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  // Returns true for what is computed with as a float.
  [[nodiscard]] bool is_float() const { return std::holds_alternative<double>(data_) || is_big_integer(); }
  [[nodiscard]] bool is_big_integer() const { return std::holds_alternative<BigInteger>(data_); }
  // Returns true for Python's numbers.Number: booleans are integers.
  [[nodiscard]] bool is_number() const { return is_bool() || is_int() || is_float(); }
  [[nodiscard]] bool is_text() const { return std::holds_alternative<Text>(data_); }
  [[nodiscard]] bool is_sequence() const { return std::holds_alternative<std::shared_ptr<Sequence>>(data_); }
  [[nodiscard]] bool is_dict() const { return std::holds_alternative<std::shared_ptr<Dict>>(data_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<std::shared_ptr<Object>>(data_); }

  // Return the content. REQUIRES: is_...() of the same name.
  [[nodiscard]] const Undefined& undefined() const { return std::get<Undefined>(data_); }
  [[nodiscard]] bool boolean() const { return std::get<bool>(data_); }
  [[nodiscard]] int64_t integer() const { return std::get<int64_t>(data_); }
  [[nodiscard]] double real() const {
    return is_big_integer() ? std::get<BigInteger>(data_).real : std::get<double>(data_);
  }
  [[nodiscard]] const std::string& digits() const { return *std::get<BigInteger>(data_).digits; }  // is_big_integer()
  [[nodiscard]] const std::string& text() const { return *std::get<Text>(data_).bytes; }
  [[nodiscard]] bool is_markup() const { return is_text() && std::get<Text>(data_).markup; }
  [[nodiscard]] Sequence& sequence() const { return *std::get<std::shared_ptr<Sequence>>(data_); }
  [[nodiscard]] const Dict& dict() const { return *std::get<std::shared_ptr<Dict>>(data_); }
  [[nodiscard]] const std::shared_ptr<Object>& object() const { return std::get<std::shared_ptr<Object>>(data_); }

  // Returns true for the same object, like Python's `is`.
  [[nodiscard]] bool same(const Value& other) const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, BigInteger, Text, std::shared_ptr<Sequence>,
               std::shared_ptr<Dict>, std::shared_ptr<Object>>
      data_;
};

// A list, or one of Python's list-like types that print or index differently.
struct Sequence {
  enum class Kind {
    kList,
    kTuple,
    kRange,
    kKeys,  // dict.keys(), .values(), .items(): countable, not indexable
    kValues,
    kItems,
    kGenerator,  // the result of map, select and the like: can be walked once, not counted or indexed
  };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;          // of nesting, so that recursion over values is bounded
  bool consumed = false;  // of a generator
};

// Insertion-ordered, like Python's.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;

  // Returns nullptr if there is no such key. Throws Failure for unhashable keys.
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  void set(Value key, Value value);

 private:
  [[nodiscard]] int64_t index_of(const Value& key) const;
  // Keys by their identity text; built only if a walk would be long.
  std::unordered_map<std::string, int64_t> index_;
};

// An object with behaviour: a function, macro, bound method, namespace or loop.
struct Object {
  virtual ~Object() = default;
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  // Returns the levels of nesting of the values it holds for good, for the bound on recursion.
  [[nodiscard]] virtual int depth() const { return 0; }
};

constexpr int kMaxDepth = 200;

// Make lists and dicts for the interpreter. Throw Failure beyond kMaxDepth levels of nesting.
[[nodiscard]] Value make_sequence(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
[[nodiscard]] Value make_dict(const std::vector<std::pair<Value, Value>>& entries);
[[nodiscard]] int depth_of(const Value& value);

// Returns Python's type name: "str", "list", "dict", "NoneType", ...
[[nodiscard]] std::string_view type_name(const Value& value);
// Throws Failure with "a 'list' object", or the message of an undefined value.
[[noreturn]] void fail_undefined(const Value& value);

[[nodiscard]] bool truthy(const Value& value);
// Does ==; fails only for the budget.
[[nodiscard]] bool equal(const Value& left, const Value& right, Budget& budget);
// Returns less than zero, zero, more than zero; throws Failure for types that Python does not order. `op` is for the
// message.
[[nodiscard]] int compare(const Value& left, const Value& right, std::string_view op, Budget& budget);
// These do str() and repr().
[[nodiscard]] std::string to_text(const Value& value, Budget& budget);
[[nodiscard]] std::string repr(const Value& value, Budget& budget);
[[nodiscard]] std::string repr_float(double number);

// Returns the items of a walk over the value: list items, dict keys, characters. Consumes a generator. Throws Failure
// for a value that cannot be iterated.
[[nodiscard]] std::vector<Value> items_of(const Value& value, Budget& budget);
// Does len(); throws Failure if there is none.
[[nodiscard]] int64_t length_of(const Value& value);
[[nodiscard]] bool is_iterable(const Value& value);
// Does Python's `in`.
[[nodiscard]] bool contains(const Value& container, const Value& item, Budget& budget);

// Returns a number from a bool, int or float. REQUIRES: is_number().
[[nodiscard]] double as_real(const Value& value);
// Returns an int from a bool or int; throws Failure "expected an integer for WHAT, got ...".
[[nodiscard]] int64_t as_integer(const Value& value, std::string_view what);

}  // namespace spillway::text::jinja

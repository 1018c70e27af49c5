#include "base/json.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ordered_members.h"

namespace spillway {
namespace {

// Builds the tree that the library's own parser builds, and throws the library's errors.
template <typename Json>
class TreeReader {
 public:
  explicit TreeReader(std::string_view where) : where_(where) {}

  [[nodiscard]] Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return add(std::move(value)); }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(std::string& name) {
    member_ = &open_.back().member(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  template <typename Error>
  bool parse_error(size_t, const std::string&, const Error& error) {
    throw error;
  }

 private:
  // An object or a list whose end has not come. While a value in it is built it gets no other, so that pointers to
  // its values stay right.
  class Open {
   public:
    explicit Open(Json& value) : value_(&value) {
      if constexpr (kIsOrdered) {
        if (value.is_object()) members_.emplace(value);
      }
    }
    [[nodiscard]] Json& value() const { return *value_; }
    Json& member(const std::string& name) {
      if constexpr (kIsOrdered) {
        return (*members_)[name];
      } else {
        return (*value_)[name];
      }
    }

   private:
    static constexpr bool kIsOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
    Json* value_;
    std::conditional_t<kIsOrdered, std::optional<OrderedMembers>, std::monostate> members_;
  };

  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back().value().is_object()) return *member_ = std::move(value);
    open_.back().value().push_back(std::move(value));
    return open_.back().value().back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaxJsonDepth) {
      throw input_error(where_, "expected at most {} nested levels, got more; correct the file", kMaxJsonDepth);
    }
    open_.emplace_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where_;
  Json root_;
  std::vector<Open> open_;
  Json* member_ = nullptr;  // of the innermost object, whose value comes next
};

// Accepts everything, and remembers the position of a number that no double holds.
struct OverflowFinder {
  size_t end = 0;  // behind the number; 0: there is none
  std::string number;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool start_object(size_t) { return true; }
  bool key(std::string&) { return true; }
  bool end_object() { return true; }
  bool start_array(size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) {
    constexpr int kNumberOverflow = 406;
    if (error.id != kNumberOverflow) return false;
    end = position;
    number = token;
    return false;
  }
};

// Returns `text` with its numbers that are too large in quotes; empty if it is no JSON for another reason.
std::string with_quoted_overflows(std::string_view text) {
  constexpr int kMaxOverflows = 64;
  std::string quoted(text);
  for (int i = 0; i < kMaxOverflows; ++i) {
    OverflowFinder finder;
    if (nlohmann::json::sax_parse(quoted, &finder)) return quoted;
    if (finder.end < finder.number.size() || finder.number.empty()) return "";
    const size_t begin = finder.end - finder.number.size();
    if (quoted.compare(begin, finder.number.size(), finder.number) != 0) return "";
    quoted.insert(finder.end, 1, '"').insert(begin, 1, '"');
  }
  return "";
}

}  // namespace

template <typename Json>
Json read_json(std::string_view text, std::string_view where) {
  TreeReader<Json> reader(where);
  Json::sax_parse(text, &reader);
  return reader.take();
}

template <typename Json>
Json parse_json(std::string_view text, std::string_view where) {
  const Json none(Json::value_t::discarded);
  try {
    return read_json<Json>(text, where);
  } catch (const typename Json::out_of_range&) {
    const std::string quoted = with_quoted_overflows(text);
    return quoted.empty() ? none : read_json<Json>(quoted, where);
  } catch (const typename Json::parse_error&) {
    return none;
  }
}

template <typename Json>
std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

template nlohmann::json parse_json(std::string_view, std::string_view);
template nlohmann::ordered_json parse_json(std::string_view, std::string_view);
template nlohmann::json read_json(std::string_view, std::string_view);
template nlohmann::ordered_json read_json(std::string_view, std::string_view);
template std::string json_text(const nlohmann::json&, int);
template std::string json_text(const nlohmann::ordered_json&, int);

std::string with_named_infinities(std::string config_json) {
  constexpr std::array<std::string_view, 3> kNumbers = {"-Infinity", "Infinity", "NaN"};
  bool is_string = false;
  for (size_t at = 0; at < config_json.size(); ++at) {
    if (config_json[at] == '"') is_string = !is_string;
    if (is_string && config_json[at] == '\\') ++at;
    if (is_string) continue;
    for (const std::string_view number : kNumbers) {
      if (config_json.compare(at, number.size(), number) != 0) continue;
      const std::string named = fmt::format(R"({{"__float__": "{}"}})", number);
      config_json.replace(at, number.size(), named);
      at += named.size() - 1;
      break;
    }
  }
  return config_json;
}

}  // namespace spillway

#include "text/jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& value) {
    budget_.spend(1);
    const size_t before = out.size();
    if (value.is_none()) {
      out += "null";
    } else if (value.is_bool()) {
      out += value.boolean() ? "true" : "false";
    } else if (value.is_int()) {
      out += std::to_string(value.integer());
    } else if (value.is_big_integer()) {
      out += value.digits();
    } else if (value.is_float()) {
      out += real_text(value.real());
    } else if (value.is_text()) {
      write_text(value.text());
    } else if (value.is_sequence() &&
               (value.sequence().kind == Sequence::Kind::kList || value.sequence().kind == Sequence::Kind::kTuple)) {
      write_list(value.sequence().items);
    } else if (value.is_dict()) {
      write_dict(value.dict());
    } else {
      throw Failure{fmt::format("Object of type {} is not JSON serializable", type_name(value))};
    }
    budget_.spend_bytes(out.size() - before);
  }

  std::string out;

 private:
  static std::string real_text(double real) {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return repr_float(real);
  }

  static std::string key_text(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return "null";
    if (key.is_bool()) return key.boolean() ? "true" : "false";
    if (key.is_int()) return std::to_string(key.integer());
    if (key.is_big_integer()) return key.digits();
    if (key.is_float()) return real_text(key.real());
    throw Failure{fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key))};
  }

  void write_text(std::string_view text) {
    out.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const size_t length = char_bytes(text, at);
      const char32_t point = code_point(text, at);
      static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
      const size_t named = point < 0x80 ? kFrom.find(static_cast<char>(point)) : std::string_view::npos;
      if (named != std::string_view::npos) {
        out.push_back('\\');
        out.push_back(kTo[named]);
      } else if (point < 0x20 || (style_.ensure_ascii && point >= 0x7F)) {
        write_escape(point);
      } else {
        out += text.substr(at, length);
      }
      at += length;
    }
    out.push_back('"');
  }
  void write_escape(char32_t point) {
    if (point < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    } else {
      const uint32_t rest = static_cast<uint32_t>(point) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  void new_line() {
    if (!style_.lines) return;
    budget_.spend(1 + level_ / 8);
    out.push_back('\n');
    for (int i = 0; i < level_; ++i) out += style_.indent;
  }
  void separate(bool first) {
    if (!first) out += style_.item_separator;
    new_line();
  }

  void write_list(const std::vector<Value>& items) {
    out.push_back('[');
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      write(items[i]);
    }
    --level_;
    if (!items.empty()) new_line();
    out.push_back(']');
  }

  void write_dict(const Dict& dict) {
    auto entries = dict.entries;
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [this](const auto& a, const auto& b) { return compare(a.first, b.first, "<", budget_) < 0; });
    }
    out.push_back('{');
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      write_text(key_text(entries[i].first));
      out += style_.key_separator;
      write(entries[i].second);
    }
    --level_;
    if (!entries.empty()) new_line();
    out.push_back('}');
  }

  const JsonStyle& style_;
  Budget& budget_;
  int level_ = 0;
};

Value convert(const nlohmann::ordered_json& json, Budget& budget, int level) {
  using Kind = nlohmann::ordered_json::value_t;
  budget.spend(1);
  if (level > kMaxDepth)
    throw Failure{fmt::format("expected values nested at most {} levels deep, got more", kMaxDepth)};
  switch (json.type()) {
    case Kind::null:
      return {};
    case Kind::boolean:
      return Value(json.get<bool>());
    case Kind::number_integer:
      return Value(json.get<int64_t>());
    case Kind::number_unsigned: {
      const uint64_t number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX))
        return Value(BigInteger{static_cast<double>(number), std::make_shared<const std::string>(json.dump())});
      return Value(static_cast<int64_t>(number));
    }
    case Kind::number_float:
      return Value(json.get<double>());
    case Kind::string:
      return Value(json.get_ref<const std::string&>());
    case Kind::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert(item, budget, level + 1));
      return make_sequence(std::move(items));
    }
    case Kind::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) entries.emplace_back(Value(key), convert(item, budget, level + 1));
      return make_dict(entries);
    }
    default:
      throw Failure{"expected JSON, got binary data"};
  }
}

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value);
  return std::move(writer.out);
}

Value from_json(const nlohmann::ordered_json& json, Budget& budget) { return convert(json, budget, 1); }

Value parse_json(std::string_view text, Budget& budget) {
  budget.spend_bytes(text.size() * 4);
  nlohmann::ordered_json json;
  try {
    json = read_json<nlohmann::ordered_json>(text, "");
  } catch (const nlohmann::json::exception&) {
    throw Failure{"expected JSON text for from_json, got something else"};
  } catch (const InputError&) {
    throw Failure{fmt::format("expected values nested at most {} levels deep, got more", kMaxDepth)};
  }
  return from_json(json, budget);
}

}  // namespace spillway::text::jinja

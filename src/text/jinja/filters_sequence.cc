// Filters over lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "base/sizes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

Value generator(std::vector<Value> items) { return make_sequence(std::move(items), Sequence::Kind::kGenerator); }

// Returns the key that the filters compare: the item or an attribute of it, text without regard to case by default.
Value sort_key(Runtime& runtime, const Value& item, const Value& path, bool case_sensitive) {
  Value key = path.is_none() ? item : lookup_path(runtime, item, path);
  return key.is_text() && !case_sensitive ? Value(lower(key.text())) : key;
}

// Returns the keys of one sort: attribute="a,b" sorts by a, then by b.
std::vector<Value> sort_keys(Runtime& runtime, const Value& item, const Value& path, bool case_sensitive) {
  if (!path.is_text() || path.text().find(',') == std::string::npos)
    return {sort_key(runtime, item, path, case_sensitive)};
  std::vector<Value> keys;
  std::string_view rest = path.text();
  for (size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    keys.push_back(sort_key(runtime, item, Value(rest.substr(0, comma)), case_sensitive));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
  return keys;
}

std::vector<Value> sorted(Runtime& runtime, std::vector<Value> items, const Value& path, bool case_sensitive,
                          bool reverse) {
  struct Keyed {
    Value key, item;
  };
  std::vector<Keyed> keyed;
  for (Value& item : items) {
    Value key = make_sequence(sort_keys(runtime, item, path, case_sensitive));
    keyed.push_back({std::move(key), std::move(item)});
  }
  const auto before = [&](const Keyed& a, const Keyed& b) {
    return reverse ? compare(b.key, a.key, "<", runtime.budget) < 0 : compare(a.key, b.key, "<", runtime.budget) < 0;
  };
  std::stable_sort(keyed.begin(), keyed.end(), before);
  items.clear();
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

Value sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args =
      bind("sort", arguments, {{"reverse", Value(false)}, {"case_sensitive", Value(false)}, {"attribute", Value()}});
  return make_sequence(sorted(runtime, items_of(input, runtime.budget), args[2], truthy(args[1]), truthy(args[0])));
}

std::vector<Value> pairs_of(Runtime& runtime, const Value& dict, std::string_view filter) {
  if (dict.is_undefined()) return {};
  if (!dict.is_dict()) throw Failure{fmt::format("expected a mapping for {}, got '{}'", filter, type_name(dict))};
  return items_of(call(runtime, *find_method(dict, "items"), {}), runtime.budget);
}

Value dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args =
      bind("dictsort", arguments, {{"case_sensitive", Value(false)}, {"by", Value("key")}, {"reverse", Value(false)}});
  const bool by_value = args[1].is_text() && args[1].text() == "value";
  if (!by_value && !(args[1].is_text() && args[1].text() == "key"))
    throw Failure{"You can only sort by either \"key\" or \"value\""};
  if (input.is_undefined()) fail_undefined(input);
  return make_sequence(
      sorted(runtime, pairs_of(runtime, input, "dictsort"), Value(by_value ? 1 : 0), truthy(args[0]), truthy(args[2])));
}

Value items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("items", arguments, {});
  return generator(pairs_of(runtime, input, "items"));
}

Value join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("join", arguments, {{"d", Value("")}, {"attribute", Value()}});
  const std::string separator = to_text(args[0], runtime.budget);
  std::string out;
  bool first = true;
  for (const Value& item : items_of(input, runtime.budget)) {
    if (!first) out += separator;
    first = false;
    out += to_text(args[1].is_none() ? item : lookup_path(runtime, item, args[1]), runtime.budget);
    runtime.budget.spend_bytes(separator.size());
  }
  return Value(std::move(out));
}

Value first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("first", arguments, {});
  if (input.is_sequence() && input.sequence().kind == Sequence::Kind::kGenerator && !input.sequence().items.empty()) {
    auto& rest = input.sequence().items;
    runtime.budget.spend(static_cast<int64_t>(rest.size()));
    Value item = rest.front();
    rest.erase(rest.begin());
    return item;
  }
  const auto all = items_of(input, runtime.budget);
  return all.empty() ? make_undefined("No first item, sequence was empty.") : all.front();
}

Value last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("last", arguments, {});
  if (input.is_sequence() && input.sequence().kind == Sequence::Kind::kGenerator)
    throw Failure{"'generator' object is not reversible"};
  const auto all = items_of(input, runtime.budget);
  return all.empty() ? make_undefined("No last item, sequence was empty.") : all.back();
}

Value list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("list", arguments, {});
  return make_sequence(items_of(input, runtime.budget));
}

Value reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("reverse", arguments, {});
  auto all = items_of(input, runtime.budget);
  std::reverse(all.begin(), all.end());
  if (!input.is_text()) return generator(std::move(all));
  std::string text;
  for (const Value& character : all) text += character.text();
  return Value(std::move(text), input.is_markup());
}

Value sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("sum", arguments, {{"attribute", Value()}, {"start", Value(0)}});
  Value total = args[1];
  for (const Value& item : items_of(input, runtime.budget)) {
    total = binary(runtime, "+", total, args[0].is_none() ? item : lookup_path(runtime, item, args[0]));
  }
  return total;
}

template <bool kMax>
Value extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind(kMax ? "max" : "min", arguments, {{"case_sensitive", Value(false)}, {"attribute", Value()}});
  const auto all = items_of(input, runtime.budget);
  if (all.empty()) return make_undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) { return sort_key(runtime, item, args[1], truthy(args[0])); };
  const Value* best = &all.front();
  Value best_key = key(*best);
  for (const Value& item : all) {
    Value item_key = key(item);
    const int order = compare(item_key, best_key, kMax ? ">" : "<", runtime.budget);
    if (kMax ? order > 0 : order < 0) {
      best = &item;
      best_key = std::move(item_key);
    }
  }
  return *best;
}

Value unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("unique", arguments, {{"case_sensitive", Value(false)}, {"attribute", Value()}});
  Dict seen;
  std::vector<Value> kept;
  for (const Value& item : items_of(input, runtime.budget)) {
    Value key = sort_key(runtime, item, args[1], truthy(args[0]));
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), Value());
    kept.push_back(item);
  }
  return generator(std::move(kept));
}

Value groupby(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("groupby", arguments, {{"attribute"}, {"default", Value()}, {"case_sensitive", Value(false)}});
  const bool case_sensitive = truthy(args[2]);
  std::vector<Value> groups, members;
  const auto close = [&] {
    if (members.empty()) return;
    Value key = lookup_path(runtime, members.front(), args[0]);
    groups.push_back(make_sequence({std::move(key), make_sequence(std::move(members))}, Sequence::Kind::kTuple));
    members.clear();
  };
  Value previous;
  for (Value& item : sorted(runtime, items_of(input, runtime.budget), args[0], case_sensitive, false)) {
    Value key = sort_key(runtime, item, args[0], case_sensitive);
    if (!members.empty() && !equal(key, previous, runtime.budget)) close();
    previous = std::move(key);
    members.push_back(std::move(item));
  }
  close();
  return make_sequence(std::move(groups));
}

Value batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("batch", arguments, {{"linecount"}, {"fill_with", Value()}});
  const int64_t size = as_integer(args[0], "linecount");
  if (size < 1) throw Failure{fmt::format("expected linecount >= 1 for batch, got {}", size)};
  std::vector<Value> rows, row;
  for (Value& item : items_of(input, runtime.budget)) {
    row.push_back(std::move(item));
    if (static_cast<int64_t>(row.size()) == size) rows.push_back(make_sequence(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (!args[1].is_none()) {
      runtime.budget.spend(size);
      resize(row, size, args[1]);
    }
    rows.push_back(make_sequence(std::move(row)));
  }
  return generator(std::move(rows));
}

Value slice_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("slice", arguments, {{"slices"}, {"fill_with", Value()}});
  const auto all = items_of(input, runtime.budget);
  const int64_t slices = as_integer(args[0], "slices"), size = static_cast<int64_t>(all.size());
  if (slices < 1) throw Failure{fmt::format("expected slices >= 1 for slice, got {}", slices)};
  runtime.budget.spend(slices);
  std::vector<Value> rows;
  auto next = all.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const bool longer = i < size % slices;
    std::vector<Value> row(next, next + size / slices + (longer ? 1 : 0));
    next += static_cast<std::ptrdiff_t>(row.size());
    if (!args[1].is_none() && !longer && size % slices != 0) row.push_back(args[1]);
    rows.push_back(make_sequence(std::move(row)));
  }
  return generator(std::move(rows));
}

// Treats anything false, such as None, as an empty list, as map and the selecting filters do.
std::vector<Value> items_or_none(Runtime& runtime, const Value& input) {
  return truthy(input) ? items_of(input, runtime.budget) : std::vector<Value>();
}

// Does map('filter', arguments...) or map(attribute=..., default=...).
Value map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::vector<Value> mapped;
  if (arguments.positional.empty()) {
    const auto args = bind("map", arguments, {{"attribute"}, {"default", Value()}});
    for (const Value& item : items_or_none(runtime, input))
      mapped.push_back(lookup_path(runtime, item, args[0], args[1]));
    return generator(std::move(mapped));
  }
  const std::string name = to_text(arguments.positional.front(), runtime.budget);
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : items_or_none(runtime, input)) mapped.push_back(apply_filter(runtime, name, item, rest));
  return generator(std::move(mapped));
}

// Does select, reject (by the item itself) and selectattr, rejectattr (by an attribute of it): by a test, or by truth.
template <bool kKeep, bool kAttribute>
Value select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  size_t used = 0;
  Value path;
  if (kAttribute) {
    if (arguments.positional.empty()) throw Failure{"Missing parameter for attribute name"};
    path = arguments.positional[used++];
  }
  std::string test;
  if (used < arguments.positional.size()) test = to_text(arguments.positional[used++], runtime.budget);
  const Arguments rest{{arguments.positional.begin() + static_cast<std::ptrdiff_t>(used), arguments.positional.end()},
                       arguments.named};
  std::vector<Value> kept;
  for (const Value& item : items_or_none(runtime, input)) {
    const Value value = kAttribute ? lookup_path(runtime, item, path) : item;
    const bool passes = test.empty() ? truthy(value) : apply_test(runtime, test, value, rest);
    if (passes == kKeep) kept.push_back(item);
  }
  return generator(std::move(kept));
}

constexpr std::array kSequenceFilters = {
    NamedFilter{"sort", sort},
    NamedFilter{"dictsort", dictsort},
    NamedFilter{"items", items},
    NamedFilter{"join", join},
    NamedFilter{"first", first},
    NamedFilter{"last", last},
    NamedFilter{"list", list},
    NamedFilter{"reverse", reverse},
    NamedFilter{"sum", sum},
    NamedFilter{"min", extreme<false>},
    NamedFilter{"max", extreme<true>},
    NamedFilter{"unique", unique},
    NamedFilter{"groupby", groupby},
    NamedFilter{"batch", batch},
    NamedFilter{"slice", slice_filter},
    NamedFilter{"map", map},
    NamedFilter{"select", select<true, false>},
    NamedFilter{"reject", select<false, false>},
    NamedFilter{"selectattr", select<true, true>},
    NamedFilter{"rejectattr", select<false, true>},
};

}  // namespace

Value lookup_path(Runtime& runtime, const Value& value, const Value& path, const Value& fallback) {
  const auto step = [&](const Value& from, const Value& key) {
    Value found = item(runtime, from, key);
    return found.is_undefined() && !fallback.is_none() ? fallback : found;
  };
  if (!path.is_text()) return step(value, path);
  Value found = value;
  std::string_view rest = path.text();
  for (size_t dot = 0; dot != std::string_view::npos;) {
    dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = end.ec == std::errc() && end.ptr == part.data() + part.size() && !part.starts_with('-');
    found = step(found, is_index ? Value(index) : Value(part));
    if (dot != std::string_view::npos) rest.remove_prefix(dot + 1);
  }
  return found;
}

Filter find_sequence_filter(std::string_view name) {
  const auto* found = std::find_if(kSequenceFilters.begin(), kSequenceFilters.end(),
                                   [&](const NamedFilter& f) { return f.name == name; });
  return found == kSequenceFilters.end() ? nullptr : found->filter;
}

}  // namespace spillway::text::jinja

#include "data/rows/replaced_places.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace spillway::data {
namespace {

// As kStandIns, with a number.
std::string numbered_stand_in(size_t kind, size_t number) {
  return kind == 0 ? fmt::format("[[dummy_message_{}]]", number) : fmt::format("zzdummymessage_{}_zz", number);
}

// Returns the text before, between and after the stand-ins; nothing if they are not all there, in this order.
std::optional<std::vector<std::string_view>> pieces_around(std::string_view rendered,
                                                           std::span<const std::string> stand_ins) {
  std::vector<std::string_view> pieces;
  size_t at = 0;
  for (const std::string& stand_in : stand_ins) {
    const size_t found = rendered.find(stand_in, at);
    if (found == std::string_view::npos) return std::nullopt;
    pieces.push_back(rendered.substr(at, found - at));
    at = found + stand_in.size();
  }
  pieces.push_back(rendered.substr(at));
  return pieces;
}

// Returns the gaps between the pieces if `text` begins with the first, ends with the last and has the others between
// them in one way only: then the leftmost places of all are also the rightmost.
std::optional<std::vector<Range>> gaps_between(std::string_view text, std::span<const std::string_view> pieces) {
  const std::string_view first = pieces.front(), last = pieces.back();
  if (text.size() < first.size() + last.size() || !text.starts_with(first) || !text.ends_with(last))
    return std::nullopt;
  const std::span<const std::string_view> inner = pieces.subspan(1, pieces.size() - 2);
  std::vector<Range> gaps;
  size_t at = first.size();
  const auto add_gap_up_to = [&](size_t end) { gaps.push_back({static_cast<int64_t>(at), static_cast<int64_t>(end)}); };
  for (const std::string_view piece : inner) {
    const size_t found = text.find(piece, at);
    if (found == std::string_view::npos) return std::nullopt;
    add_gap_up_to(found);
    at = found + piece.size();
  }
  if (at > text.size() - last.size()) return std::nullopt;
  add_gap_up_to(text.size() - last.size());
  size_t end = text.size() - last.size();
  for (size_t i = inner.size(); i > 0; --i) {
    const std::string_view piece = inner[i - 1];
    if (text.rfind(piece, end - piece.size()) != static_cast<size_t>(gaps[i - 1].end)) return std::nullopt;
    end = static_cast<size_t>(gaps[i - 1].end);
  }
  return gaps;
}

class Search {
 public:
  Search(const std::string& text, size_t parts, const RenderReplaced& render)
      : text_(text), render_(render), places_(parts) {}

  std::vector<Range> run() {
    std::vector<size_t> all(places_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    if (!all.empty()) find(all);
    return std::move(places_);
  }

 private:
  static size_t bits_of(std::span<const size_t> parts) { return static_cast<size_t>(std::bit_width(parts.size() - 1)); }

  void find(std::span<const size_t> parts) {
    if (parts.size() <= 2 * bits_of(parts) || parts.size() == 1) {
      for (const size_t part : parts) find_alone(part);
    } else if (!find_together(parts)) {
      find(parts.first(parts.size() / 2));
      find(parts.subspan(parts.size() / 2));
    }
  }

  void find_alone(size_t part) {
    places_[part] = difference_with_stand_ins(
        text_, [&](const char* stand_in) { return render_(std::span(&part, 1), std::array{std::string(stand_in)}); });
  }

  bool find_together(std::span<const size_t> parts) {
    for (size_t bit = 0; bit < bits_of(parts); ++bit) {
      for (const size_t side : {0, 1}) {
        std::vector<size_t> some;
        for (size_t i = 0; i < parts.size(); ++i) {
          if (((i >> bit) & 1) == side) some.push_back(parts[i]);
        }
        const bool is_first = bit == 0;
        if (!find_some(some, 0, is_first) || !find_some(some, 1, false)) return false;
      }
    }
    return true;
  }

  // Returns true if replacing these parts shows their places: the same as before, unless this is the first time.
  bool find_some(std::span<const size_t> parts, size_t kind, bool is_first) {
    std::vector<std::string> stand_ins;
    for (const size_t part : parts) stand_ins.push_back(numbered_stand_in(kind, part));
    std::string rendered;
    try {
      rendered = render_(parts, stand_ins);
    } catch (const InputError&) {
      return false;  // what one part alone does is said when it is searched alone
    }
    const auto pieces = pieces_around(rendered, stand_ins);
    const auto gaps = pieces ? gaps_between(text_, *pieces) : std::nullopt;
    if (!gaps) return false;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!is_first && places_[parts[i]] != (*gaps)[i]) return false;
      places_[parts[i]] = (*gaps)[i];
    }
    return true;
  }

  const std::string& text_;
  const RenderReplaced& render_;
  std::vector<Range> places_;
};

}  // namespace

std::vector<Range> find_replaced(const std::string& text, size_t parts, const RenderReplaced& render) {
  return Search(text, parts, render).run();
}

}  // namespace spillway::data

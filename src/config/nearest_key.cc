#include "config/nearest_key.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"

namespace spillway::config {
namespace {

using Words = std::vector<std::string_view>;

// Costs are in halves of an edit.
constexpr int kEdit = 2;
constexpr int kFar = std::numeric_limits<int>::max() / 4;
constexpr int kShort = 1;       // an abbreviation, a plural
constexpr int kElsewhere = 2;   // the right key below another parent
constexpr int kLeftOut = 4;     // the first word that the name has and the key has not
constexpr int kLeftOutToo = 2;  // each further one
constexpr int kTooMuch = 6;     // a word that the key has and the name has not

// Abbreviations that are no beginning of what they mean.
constexpr std::pair<std::string_view, std::string_view> kAbbreviations[] = {
    {"lr", "learning_rate"},         {"bs", "batch_size"},       {"wd", "weight_decay"},
    {"ckpt", "checkpoint"},          {"gpu", "device"},          {"batchsize", "batch_size"},
    {"ga", "gradient_accumulation"}, {"seqlen", "sequence_len"}, {"length", "len"}};

void add_words(std::string_view name, Words& words) {
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("_.-"), name.size());
    const std::string_view word = name.substr(0, end);
    const auto* const known = std::find_if(std::begin(kAbbreviations), std::end(kAbbreviations),
                                           [&](const auto& one) { return one.first == word; });
    if (known == std::end(kAbbreviations)) {
      words.push_back(word);
    } else {
      add_words(known->second, words);
    }
    name.remove_prefix(std::min(end + 1, name.size()));
  }
}

Words name_words(std::string_view name) {
  Words words;
  add_words(name, words);
  return words;
}

bool is_plural(std::string_view one, std::string_view other) {
  return other.size() == one.size() + 1 && other.ends_with('s') && other.starts_with(one);
}

// Returns true for `grad` and `gradient`: the shorter is the beginning of the longer.
bool is_beginning(std::string_view one, std::string_view other) {
  constexpr size_t kLeast = 3;
  return one.size() >= kLeast && other.size() > one.size() && other.starts_with(one);
}

int letters_of(std::string_view word) { return static_cast<int>(word.size()); }

// Returns the most edits by which a word may differ from another one that is meant.
int most_edits(std::string_view word) { return word.size() <= 3 ? 1 : std::max(2, letters_of(word) / 3); }

// The words of all names: a word that is among them is no misspelt other one.
using Vocabulary = std::set<std::string_view>;

// Returns what it costs to take a key's word for a name's; kFar for words that have little in common.
int cost_of(std::string_view one, std::string_view other, const Vocabulary& known) {
  if (one == other) return 0;
  for (const auto& [from, to] : {std::pair{one, other}, {other, one}})
    if (is_plural(from, to) || is_beginning(from, to)) return kShort;
  if (known.contains(one)) return kFar;
  const int edits = edit_distance(one, other);
  return edits <= most_edits(one) && edits < letters_of(one) ? kEdit * edits : kFar;
}

// Returns the least cost of an alignment of the words, in their order. Only one of the two may have words of its own:
// where each has some, they are names of two things.
int cost_of_words(const Words& key, const Words& name, const Vocabulary& known) {
  const bool is_shorter = key.size() < name.size();
  std::vector<std::vector<int>> best(key.size() + 1, std::vector<int>(name.size() + 1, kFar));
  best[0][0] = 0;
  for (size_t i = 0; i <= key.size(); ++i) {
    for (size_t j = 0; j <= name.size(); ++j) {
      const int here = best[i][j];
      const auto reach = [&](size_t more_i, size_t more_j, int cost) {
        if (i + more_i > key.size() || j + more_j > name.size()) return;
        int& there = best[i + more_i][j + more_j];
        there = std::min(there, here + cost);
      };
      if (here >= kFar) continue;
      if (is_shorter) {
        reach(0, 1, kLeftOutToo);
      } else {
        reach(1, 0, kTooMuch);
      }
      if (i < key.size() && j < name.size()) reach(1, 1, cost_of(key[i], name[j], known));
    }
  }
  return best[key.size()][name.size()] + (is_shorter ? kLeftOut - kLeftOutToo : 0);
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// A search for the name that is nearest to one key.
class Search {
 public:
  Search(std::string_view key, const Vocabulary& known) : key_(key), words_(name_words(key)), known_(known) {}

  // `compared` is the part of the name that the key is held against, `more` a cost beside.
  void look_at(std::string_view name, std::string_view compared, int more) {
    const Words words = name_words(compared);
    int cost = cost_of_words(words_, words, known_);
    // Words that were run together or torn apart.
    if (words.size() != words_.size()) cost = std::min(cost, kEdit * edit_distance(key_, compared));
    if (cost + more >= cost_) return;
    cost_ = cost + more;
    found_ = name;
  }

  [[nodiscard]] std::string_view found() const {
    // A whole word of a name means it, however short it is.
    return cost_ <= std::max(kLeftOut, kEdit * most_edits(key_)) ? found_ : std::string_view{};
  }

 private:
  std::string_view key_;
  Words words_;
  const Vocabulary& known_;
  std::string_view found_;
  int cost_ = kFar;
};

}  // namespace

std::string_view nearest_key(std::string_view key, std::span<const std::string_view> names) {
  Vocabulary known;
  for (const std::string_view name : names)
    for (const std::string_view word : name_words(name)) known.insert(word);
  const size_t above = key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1;
  const std::string_view parents = key.substr(0, above), own = key.substr(above);
  Search search(own, known);
  for (const std::string_view name : names) {
    if (above > 0 && name.starts_with(parents)) search.look_at(name, name.substr(above), 0);
    if (above == 0) {
      for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
        search.look_at(name.substr(0, dot), name.substr(0, dot), 0);
    }
    if (last_part(name) == own) {
      search.look_at(name, own, kElsewhere);
    } else {
      search.look_at(name, name, above == 0 ? 0 : kElsewhere);
    }
  }
  return search.found();
}

}  // namespace spillway::config

#include "job/fit/known_name.h"

#include <algorithm>
#include <array>

namespace spillway {
namespace {

constexpr std::array<std::string_view, 4> kMakers = {"nvidia", "geforce", "tesla", "apple"};
constexpr std::array<std::string_view, 6> kVariants = {"pro", "max", "ultra", "super", "ti", "gb"};
constexpr std::array<std::string_view, 8> kVersions = {"meta", "instruct", "chat", "it",
                                                       "base", "hf",       "pt",   "diffusers"};

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

template <size_t kCount>
std::vector<std::string> words_without(std::string_view name, const std::array<std::string_view, kCount>& left_out) {
  std::vector<std::string> words = name_words(name);
  std::erase_if(words, [&](const std::string& word) {
    return std::find(left_out.begin(), left_out.end(), word) != left_out.end();
  });
  return words;
}

std::vector<std::string> shape_words(std::string_view name) {
  const size_t slash = name.rfind('/');
  return words_without(slash == std::string_view::npos ? name : name.substr(slash + 1), kVersions);
}

}  // namespace

std::vector<std::string> name_words(std::string_view name) {
  std::vector<std::string> words;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    if (is_decimal(name[at])) {
      const auto goes_on = [&](size_t i) {
        return is_decimal(name[i]) || (name[i] == '.' && i + 1 < name.size() && is_decimal(name[i + 1]));
      };
      while (end < name.size() && goes_on(end)) ++end;
    } else {
      while (end < name.size() && is_letter(name[end])) ++end;
    }
    if (end > at) words.emplace_back(name.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  for (std::string& word : words) std::transform(word.begin(), word.end(), word.begin(), small);
  return words;
}

std::vector<std::string_view> machines_meant(std::string_view asked, std::span<const std::string_view> known) {
  const std::vector<std::string> wanted = words_without(asked, kMakers);
  if (wanted.empty() || words_without(asked, kVariants).empty()) return {};
  std::vector<std::string_view> found;
  size_t fewest = 0;
  for (const std::string_view name : known) {
    const std::vector<std::string> words = name_words(name);
    if (std::search(words.begin(), words.end(), wanted.begin(), wanted.end()) == words.end()) continue;
    if (!found.empty() && words.size() > fewest) continue;
    if (!found.empty() && words.size() < fewest) found.clear();
    fewest = words.size();
    found.push_back(name);
  }
  return found;
}

bool is_same_shape(std::string_view a, std::string_view b) {
  const std::vector<std::string> words = shape_words(a);
  return !words.empty() && words == shape_words(b);
}

}  // namespace spillway

#include "hub/repository.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::hub {
namespace {

bool is_id_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool is_id_part(std::string_view part) {
  constexpr size_t kMaxLetters = 96;
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && part.size() <= kMaxLetters && std::all_of(part.begin(), part.end(), is_id_letter) &&
         !is_edge(part.front()) && !is_edge(part.back()) && part.find("--") == std::string_view::npos &&
         part.find("..") == std::string_view::npos;
}

bool is_id(std::string_view id) {
  const size_t slash = id.find('/');
  if (slash == std::string_view::npos) return is_id_part(id);
  return is_id_part(id.substr(0, slash)) && is_id_part(id.substr(slash + 1));
}

}  // namespace

std::optional<Repository> repository_named(std::string_view text, RepositoryKind kind) {
  const size_t at = text.find('@');
  Repository result{.kind = kind, .id = std::string(text.substr(0, at)), .revision = {}};
  if (!is_id(result.id)) return {};
  if (at == std::string_view::npos) return result;
  result.revision = text.substr(at + 1);
  if (!is_revision(result.revision)) return {};
  return result;
}

bool is_inner_path(std::string_view path) {
  if (path.empty()) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return std::none_of(path.begin(), path.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

bool is_revision(std::string_view text) {
  constexpr size_t kMaxLetters = 200;
  return is_inner_path(text) && text.size() <= kMaxLetters && text.front() != '.' &&
         text.find("/.") == std::string_view::npos;
}

bool is_commit(std::string_view text) {
  constexpr size_t kDigits = 40;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string shown_name(const Repository& repository) {
  return repository.revision.empty() ? repository.id : fmt::format("{}@{}", repository.id, repository.revision);
}

std::string fetch_command(const Repository& repository) {
  return fmt::format("spillway fetch {}{}{}", repository.id,
                     repository.revision.empty() ? "" : fmt::format(" --revision {}", repository.revision),
                     repository.kind == RepositoryKind::kDataset ? " --dataset" : "");
}

}  // namespace spillway::hub

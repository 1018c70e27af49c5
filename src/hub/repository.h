// The name of a model or a data set on the Hugging Face hub: `org/name`, or `name`, and a revision of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spillway::hub {

enum class RepositoryKind { kModel, kDataset };

struct Repository {
  RepositoryKind kind = RepositoryKind::kModel;
  std::string id;
  std::string revision;  // branch, tag or commit; empty: main

  [[nodiscard]] std::string_view wanted_revision() const {
    return revision.empty() ? "main" : std::string_view(revision);
  }
  // Returns "model" or "data set", for messages.
  [[nodiscard]] std::string_view noun() const { return kind == RepositoryKind::kModel ? "model" : "data set"; }
};

// Parses `text` as "ID" or "ID@REVISION"; nullopt if it is not spelled like one: an ID has at most two parts of
// letters, digits, `-`, `_` and `.`, which neither begin nor end with `-` or `.`, without `--` and `..`.
[[nodiscard]] std::optional<Repository> repository_named(std::string_view text,
                                                         RepositoryKind kind = RepositoryKind::kModel);

// Returns true if a revision can be part of a path: no empty, hidden or leading-up part, no control character.
[[nodiscard]] bool is_revision(std::string_view text);

// Returns true if a file's name, which came from a server, stays in the folder that it is put in.
[[nodiscard]] bool is_inner_path(std::string_view path);

// Returns true if `text` is 40 lower-case hexadecimal digits.
[[nodiscard]] bool is_commit(std::string_view text);

// Returns the name as the user would write it: "org/name" or "org/name@revision".
[[nodiscard]] std::string shown_name(const Repository& repository);

// Returns `spillway fetch org/name`, with the arguments that belong to it.
[[nodiscard]] std::string fetch_command(const Repository& repository);

}  // namespace spillway::hub

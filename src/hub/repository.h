// What the Hugging Face hub calls a model or a data set: `org/name`, or `name`, and a revision of it.
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
  // "model" or "data set", for messages.
  [[nodiscard]] std::string_view noun() const { return kind == RepositoryKind::kModel ? "model" : "data set"; }
};

// `text` as "ID" or "ID@REVISION"; nothing where it is not spelled like one: an ID has at most two parts of letters,
// digits, `-`, `_` and `.`, which neither begin nor end with `-` or `.`, without `--` and `..`.
[[nodiscard]] std::optional<Repository> repository_named(std::string_view text,
                                                         RepositoryKind kind = RepositoryKind::kModel);

// Whether a revision can be part of a path: no empty, hidden or leading-up part, no control character.
[[nodiscard]] bool is_revision(std::string_view text);

// Whether a file's name, which a server said, stays in the folder that it is put in.
[[nodiscard]] bool is_inner_path(std::string_view path);

// Whether text is 40 lower-case hexadecimal digits.
[[nodiscard]] bool is_commit(std::string_view text);

// How the user would name it: "org/name" or "org/name@revision".
[[nodiscard]] std::string shown_name(const Repository& repository);

// `spillway fetch org/name`, with what belongs behind it.
[[nodiscard]] std::string fetch_command(const Repository& repository);

}  // namespace spillway::hub

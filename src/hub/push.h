// Sends files to a repository of the hub as one commit, by the interface that huggingface_hub uses: the hub says which
// files are large (preupload), those go to its store (hub/upload.h), and a commit names them all.
//
//   const Pushed pushed = push(repository, files, {.message = "Upload adapter"});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/server.h"

namespace spillway::hub {

struct PushedFile {
  std::filesystem::path path;
  std::string name;  // in the repository, with slashes
  int64_t size = 0;
};

struct PushOptions {
  Server server = server_of_environment();
  bool is_private = false;  // of a repository that does not exist yet
  std::string message = "Upload folder with spillway";
  // Remove weights in the repository that lie beside those that are sent and are not among them. Otherwise they are an
  // error: of two sets of weights in a folder, readers would take either.
  bool replaces_weights = false;
  std::string advice_on_weights =
      "choose another name or revision, or replace them (--replace-weights)";  // of that error
  int connections = 4;
  // Called with the bytes of large files that are at the hub, some times a second.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

struct Pushed {
  Repository repository;                                       // with the name that the hub gave it
  std::string commit;                                          // that the revision is at now
  std::string url;                                             // of its page
  bool is_new = false;                                         // whether the repository was created
  std::vector<std::string> sent, unchanged, ignored, removed;  // names of files; ignored by the repository's .gitignore
  int64_t bytes = 0;                                           // of the files that were sent
};

// Creates the repository and the revision where they do not exist, and sees that the token may write there; sends no
// file. `weights` is a pattern of the names of all weights that will be sent, such as "adapter_model*.safetensors", or
// empty: others in their folder are an error, as in push(). Returns the repository, with its owner in the name. Throws
// as push().
[[nodiscard]] Repository prepare_push(const Repository& repository, const PushOptions& options,
                                      const std::string& weights = {});

// Sends the files, those alone that differ from the repository's; others in the repository stay. There is either the
// whole commit or none, never a part of it. Throws InputError for errors that the user can mend (no token, no
// right to write, other weights in the repository, a revision that is no branch), MachineError if the network or the
// server fails in all attempts, or if somebody else has pushed meanwhile. REQUIRES: names are those of inner paths,
// each once.
[[nodiscard]] Pushed push(const Repository& repository, std::vector<PushedFile> files, const PushOptions& options);

}  // namespace spillway::hub

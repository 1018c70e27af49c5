// Tells the keeper of a folder's record the names of files that this process is about to write there.
//
// Safe from any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace spillway {

class NameWatch {
 public:
  // Calls `heard` with each name before a file of `folder` is written under it, on the writer's thread, one call at a
  // time; the writer throws what it throws. The folder must exist.
  NameWatch(const std::filesystem::path& folder, std::function<void(const std::string& name)> heard);
  ~NameWatch();
  NameWatch(NameWatch&&) = delete;
};

// Must be called before a file is opened to be written. A record's own name is passed over.
void tell_name(const std::filesystem::path& file);

}  // namespace spillway

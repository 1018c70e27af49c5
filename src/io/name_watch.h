// Tells the keeper of a folder's record under which names this process is about to write files there.
//
// Threads: any.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace spillway {

class NameWatch {
 public:
  // `heard` is called with each name before a file of `folder` is written under it, on the writer's thread, one call at
  // a time; what it throws, the writer throws. The folder must exist.
  NameWatch(const std::filesystem::path& folder, std::function<void(const std::string& name)> heard);
  ~NameWatch();
  NameWatch(NameWatch&&) = delete;
};

// Called before a file is opened to be written. A record's own name is passed over.
void tell_name(const std::filesystem::path& file);

}  // namespace spillway

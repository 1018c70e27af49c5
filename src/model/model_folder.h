// GGUF files where a model is named: everything that reads models reads Hugging Face folders, so a file becomes one,
// once, in the user's cache.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// `named` as it is, unless it is a GGUF file: then the folder that an import in bf16 makes of it, in models/ of the
// cache folder, made now or when the file was first named as it is (by its path, size and time of change). A folder of
// the file as it was before is removed. `where` (a config key or MODEL) is named in errors: InputError for a file that
// cannot be imported, and where there is no cache folder. Processes may do so at the same time.
[[nodiscard]] std::string model_folder(const std::string& named, std::string_view where);

}  // namespace spillway

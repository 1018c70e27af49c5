// What a user may name where a model or an adapter is wanted: everything that reads models reads Hugging Face folders,
// so anything else becomes one.
#pragma once

#include <string>
#include <string_view>

#include "hub/lookup.h"

namespace spillway {

// `named` as it is where it is a folder, or nothing; of a pipeline of diffusers (it
// has a model_index.json), or what full training leaves of one, the folder of its `component`, where that is not empty.
// Of a GGUF file the folder that an import in bf16 makes of it, in models/ of the cache folder, made now or when the
// file was first named as it is (by its path, size and time of change); a folder of the file as it was before is
// removed. Of a name of the Hugging Face hub its snapshot in the cache of the hub's libraries (hub/lookup.h). `where`
// (a config key or MODEL) is named in errors: InputError for a file that cannot be imported, where there is no cache
// folder, and as hub::folder_of(). Processes may do so at the same time.
[[nodiscard]] std::string model_folder(const std::string& named, std::string_view where,
                                       hub::FolderUse use = hub::FolderUse::kModel, const hub::Lookup& lookup = {},
                                       std::string_view component = "transformer");

// InputError about `where` unless `folder`, of model_folder() and not empty, is a folder and holds a file by which this
// use knows it: without, the first error would be about a file in a folder that is not there, or not meant. Pipelines
// of diffusers are models, too; that a folder with a tokenizer lacks a model is seen when that is read.
void check_model_folder(const std::string& folder, std::string_view where, hub::FolderUse use);

}  // namespace spillway

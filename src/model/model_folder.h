// Resolves the names of models and adapters that users give to Hugging Face folders, the only kind that is read.
#pragma once

#include <string>
#include <string_view>

#include "hub/lookup.h"

namespace spillway {

// Returns the folder for `named`:
//
// - a folder: itself; for a diffusers pipeline (with a model_index.json), or the output of full training of one, the
// folder of its `component` unless that is empty;
// - a GGUF file: the folder of its import in bf16, in models/ of the cache folder, made now or when this version of the
// file was first named (by path and version); the folder of an older version is removed;
// - an adapter's file of ComfyUI or kohya's trainers, where an adapter is asked for: in the same way, in adapters/;
// - a name of the Hugging Face hub: its snapshot in the cache of the hub's libraries (hub/lookup.h).
//
// `where` (a config key or MODEL) is named in errors. Throws InputError for a file that cannot be imported, if there is
// no cache folder, and as hub::folder_of(). Several processes may call it at the same time.
[[nodiscard]] std::string model_folder(const std::string& named, std::string_view where,
                                       hub::FolderUse use = hub::FolderUse::kModel, const hub::Lookup& lookup = {},
                                       std::string_view component = "transformer");

// Throws InputError at `where` unless `folder`, a result of model_folder() that is not empty, is a folder with a file
// by which this use recognises it: otherwise the first error would be about a file in a missing or wrong folder.
// Accepts diffusers pipelines as models. Warns of a model beside which an adapter lies. A folder with a tokenizer is
// accepted, too; a missing model is found when it is read.
void check_model_folder(const std::string& folder, std::string_view where, hub::FolderUse use);

}  // namespace spillway

#include "hub/cache.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "hub/digest.h"
#include "hub/http.h"
#include "hub/lookup.h"
#include "hub/selection.h"
#include "io/file.h"
#include "tests/support/environment.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

// The cache that huggingface_hub 2.4.0 made (tools/make_hub_goldens.py).
fs::path golden() { return source_folder() / "tests/golden/hub"; }

const std::string kFirst = std::string(39, 'a') + "1", kSecond = std::string(39, 'b') + "2";

Names selected(const Names& paths, const Names& include = {}, hub::FolderUse use = hub::FolderUse::kModel,
               hub::RepositoryKind kind = hub::RepositoryKind::kModel) {
  hub::Listing listing;
  for (const std::string& path : paths) listing.files.push_back({.path = path});
  Names names;
  for (const hub::RemoteFile& file : hub::select_files({.kind = kind, .id = "org/name"}, listing, include, use))
    names.push_back(file.path);
  return names;
}

std::string refusal(const Names& paths, const Names& include = {}) {
  try {
    (void)selected(paths, include);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("snapshots that huggingface_hub has left are found by branch, by commit and without either") {
  CHECK(hub::cached_commit(golden(), {.id = "org/whole"}) == kFirst);
  CHECK(hub::cached_commit(golden(), {.id = "org/whole", .revision = "main"}) == kFirst);
  CHECK(hub::cached_commit(golden(), {.id = "org/whole", .revision = "other"}) == kSecond);
  CHECK(hub::cached_commit(golden(), {.id = "org/whole", .revision = kSecond}) == kSecond);
  CHECK(hub::cached_commit(golden(), {.id = "org/whole", .revision = "none"}).empty());
  CHECK(hub::cached_commit(golden(), {.id = "org/none"}).empty());
  CHECK(hub::cached_commit(golden(), {.id = "org/whole", .revision = "../models--bare/refs/main"}).empty());
  const fs::path folder = hub::snapshot_folder(golden(), {.id = "org/whole", .revision = "other"});
  CHECK(read_file(folder / "config.json", 100) == "{\"model_type\": \"qwen2\"}\n");
  CHECK(hub::repository_of(folder).id == "org/whole");
  CHECK(hub::repository_of(folder.string() + "/").revision == kSecond);
  CHECK(hub::repository_of(golden()).id.empty());
  const hub::Repository rows{.kind = hub::RepositoryKind::kDataset, .id = "org/rows"};
  CHECK(fs::exists(hub::snapshot_folder(golden(), rows) / "data/train-00000-of-00001.jsonl"));
}

TEST_CASE("what a snapshot lacks is known, and what its commit has not") {
  const auto missing = [](const char* id, hub::FolderUse use) {
    return hub::missing_files(hub::snapshot_folder(golden(), {.id = id}), use);
  };
  CHECK(missing("org/whole", hub::FolderUse::kModel).empty());
  CHECK(missing("org/cut", hub::FolderUse::kModel) == Names{"model-00002-of-00002.safetensors"});
  CHECK(missing("org/cut", hub::FolderUse::kConfig).empty());
  CHECK(missing("bare", hub::FolderUse::kModel) == Names{"model.safetensors"});
  CHECK(missing("bare", hub::FolderUse::kTokenizer) == Names{"tokenizer.json"});
  CHECK(missing("org/whole", hub::FolderUse::kAdapter) == Names{"adapter_config.json", "adapter_model.safetensors"});
  const fs::path whole = hub::snapshot_folder(golden(), {.id = "org/whole"});
  CHECK(hub::is_known_absent(whole, "generation_config.json"));
  CHECK_FALSE(hub::is_known_absent(whole, "tokenizer.json"));
  CHECK(hub::has_its_tokenizer(whole));
}

TEST_CASE("blobs are named by the digests that the hub names them by") {
  int count = 0;
  for (const char* repository : {"models--org--whole", "models--org--cut", "datasets--org--rows"}) {
    for (const auto& entry : fs::directory_iterator(golden() / repository / "blobs")) {
      const std::string name = entry.path().filename().string();
      CHECK(hub::file_digest(entry.path(), hub::digest_kind(name), [] { return false; }) == name);
      ++count;
    }
  }
  CHECK(count == 10);
  CHECK(hub::digest_kind("abc") == hub::DigestKind::kNone);
  CHECK(hub::digest_kind(std::string(40, 'g')) == hub::DigestKind::kNone);
}

TEST_CASE("the cache is where the environment of the libraries has it") {
  const Environment none{{{"HF_HOME", {}},
                          {"HF_HUB_CACHE", {}},
                          {"HUGGINGFACE_HUB_CACHE", {}},
                          {"XDG_CACHE_HOME", {}},
                          {"HOME", "/home/me"}}};
  CHECK(hub::cache_folder() == "/home/me/.cache/huggingface/hub");
  const Environment cache{{{"XDG_CACHE_HOME", "/caches"}}};
  CHECK(hub::cache_folder() == "/caches/huggingface/hub");
  const Environment home{{{"HF_HOME", "~/hf"}}};
  CHECK(hub::cache_folder() == "/home/me/hf/hub");
  const Environment older{{{"HUGGINGFACE_HUB_CACHE", "/older"}}};
  CHECK(hub::cache_folder() == "/older");
  const Environment own{{{"HF_HUB_CACHE", "/own"}}};
  CHECK(hub::cache_folder() == "/own");
  for (const char* on : {"1", "true", "Yes", "ON"}) {
    const Environment offline{{{"HF_HUB_OFFLINE", on}, {"TRANSFORMERS_OFFLINE", {}}}};
    CHECK(hub::is_offline());
  }
  const Environment online{{{"HF_HUB_OFFLINE", "0"}, {"TRANSFORMERS_OFFLINE", "1"}}};
  CHECK_FALSE(hub::is_offline());
}

TEST_CASE("names of the hub are told from paths") {
  for (const char* name : {"gpt2", "org/name", "Qwen/Qwen2.5-0.5B", "org/name@main", "org/name@refs/pr/1", "a/b@v1.0"})
    CHECK_MESSAGE(hub::repository_named(name).has_value(), name);
  for (const char* path :
       {"",          "/",           "/org/name",       "./name",      "../name",   "org/name/",  "a/b/c",
        "~/model",   "org/na me",   "org/.name",       "org/-name",   "org/name.", "org/na--me", "org/na..me",
        "org/name@", "org/name@..", "org/name@a/../b", "org/name@/a", "org\\name", "s3://a/b"})
    CHECK_MESSAGE(!hub::repository_named(path).has_value(), path);
  CHECK(hub::fetch_command(*hub::repository_named("org/name@v1")) == "spillway fetch org/name --revision v1");
}

TEST_CASE("a model's usual files are those that a folder is read for, weights once") {
  CHECK(selected({".gitattributes",
                  ".hidden.json",
                  "README.md",
                  "LICENSE",
                  "config.json",
                  "tokenizer.json",
                  "tokenizer.model",
                  "merges.txt",
                  "chat_template.jinja",
                  "additional_chat_templates/tools.jinja",
                  "model-00001-of-00002.safetensors",
                  "model-00002-of-00002.safetensors",
                  "model.safetensors.index.json",
                  "consolidated.safetensors",
                  "model.fp16.safetensors",
                  "pytorch_model-00001-of-00002.bin",
                  "pytorch_model.bin.index.json",
                  "tf_model.h5",
                  "flax_model.msgpack",
                  "rust_model.ot",
                  "onnx/model.onnx",
                  "original/params.json",
                  "original/consolidated.00.pth",
                  "image.png"}) == Names{"LICENSE", "README.md", "additional_chat_templates/tools.jinja",
                                         "chat_template.jinja", "config.json", "merges.txt",
                                         "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                         "model.safetensors.index.json", "tokenizer.json", "tokenizer.model"});
  CHECK(selected({"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin", "optimizer.pt"}) ==
        Names{"adapter_config.json", "adapter_model.safetensors"});
  CHECK(selected({"config.json", "weights.safetensors"}) == Names{"config.json", "weights.safetensors"});
  CHECK(selected({"config.json", "model.safetensors", "tokenizer.json"}, {}, hub::FolderUse::kConfig) ==
        Names{"config.json", "tokenizer.json"});
  CHECK(refusal({"config.json", "pytorch_model.bin"}).find("got pytorch_model.bin; choose a model that has them") !=
        std::string::npos);
  CHECK(refusal({"a-Q4.gguf", "a-Q8.gguf"}).find("fetch one of these (spillway fetch org/name --include NAME)") !=
        std::string::npos);
}

TEST_CASE("of a pipeline the transformers are fetched, and what is read of its other parts") {
  const Names pipeline = {"model_index.json",
                          "README.md",
                          "assets/picture.png",
                          "original.safetensors",
                          "scheduler/scheduler_config.json",
                          "text_encoder/config.json",
                          "text_encoder/model.safetensors",
                          "tokenizer/tokenizer.json",
                          "transformer/config.json",
                          "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
                          "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
                          "transformer/diffusion_pytorch_model.fp16.safetensors",
                          "transformer/diffusion_pytorch_model.safetensors.index.json",
                          "vae/config.json",
                          "vae/diffusion_pytorch_model.safetensors"};
  CHECK(selected(pipeline) == Names{"README.md", "model_index.json", "scheduler/scheduler_config.json",
                                    "transformer/config.json",
                                    "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
                                    "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
                                    "transformer/diffusion_pytorch_model.safetensors.index.json", "vae/config.json"});
  CHECK(selected(pipeline, {}, hub::FolderUse::kConfig) ==
        Names{"README.md", "model_index.json", "scheduler/scheduler_config.json", "transformer/config.json",
              "transformer/diffusion_pytorch_model.safetensors.index.json", "vae/config.json"});
}

TEST_CASE("a snapshot of a pipeline lacks what its transformers lack, and diffusers' adapters are adapters") {
  const TemporaryFolder place;
  const fs::path& snapshot = place.path();
  const auto missing = [&](hub::FolderUse use) { return hub::missing_files(snapshot, use); };
  const auto write = [&](const fs::path& name, const std::string& text) {
    fs::create_directories((snapshot / name).parent_path());
    write_file(snapshot / name, text);
  };
  write("model_index.json",
        R"({"transformer": ["diffusers", "WanTransformer3DModel"], "transformer_2": [null, null], "vae": ["a", "b"]})");
  CHECK(missing(hub::FolderUse::kModel) ==
        Names{"transformer/config.json", "transformer/diffusion_pytorch_model.safetensors"});
  write("transformer/config.json", "{}");
  CHECK(missing(hub::FolderUse::kConfig).empty());
  write("transformer/diffusion_pytorch_model.safetensors.index.json",
        R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  write("transformer/one.safetensors", "");
  CHECK(missing(hub::FolderUse::kModel) == Names{"transformer/two.safetensors"});
  write("transformer/two.safetensors", "");
  CHECK(missing(hub::FolderUse::kModel).empty());
  CHECK_FALSE(missing(hub::FolderUse::kAdapter).empty());
  write("pytorch_lora_weights.safetensors", "");
  CHECK(missing(hub::FolderUse::kAdapter).empty());
}

TEST_CASE("patterns take the place of what is usual, and a data set's files are its data") {
  const Names files = {"README.md", "a/b/train-0.parquet", "a/test.parquet", "rows.jsonl.gz", "run.py", "video.mp4"};
  CHECK(selected(files, {"a/*"}) == Names{"a/b/train-0.parquet", "a/test.parquet"});
  CHECK(selected(files, {"a/"}) == Names{"a/b/train-0.parquet", "a/test.parquet"});
  CHECK(selected(files, {"*train*", "run.??"}) == Names{"a/b/train-0.parquet", "run.py"});
  CHECK(refusal(files, {"none*"}).find("expected files like none*, got none among the 6") != std::string::npos);
  CHECK(selected(files, {}, hub::FolderUse::kModel, hub::RepositoryKind::kDataset) ==
        Names{"README.md", "a/b/train-0.parquet", "a/test.parquet", "rows.jsonl.gz"});
}

TEST_CASE("addresses are taken apart, joined and escaped") {
  CHECK(hub::origin_of("https://Hub.example/a/b") == "https://hub.example:443");
  CHECK(hub::origin_of("http://hub.example:8080/a") == "http://hub.example:8080");
  CHECK(hub::origin_of("https://name:word@hub.example/") == "https://hub.example:443");
  CHECK(hub::origin_of("file:///etc/passwd").empty());
  CHECK(hub::origin_of("hub.example").empty());
  CHECK(hub::resolved_url("https://a/b/c?d", "/e") == "https://a/e");
  CHECK(hub::resolved_url("https://a/b/c", "https://x/y?z=%20") == "https://x/y?z=%20");
  CHECK(hub::url_path("a b/\xC3\xA9+c") == "a%20b/%C3%A9%2Bc");
}

TEST_CASE("a name is a folder of the cache, and what it lacks is said with the way to get it") {
  const TemporaryFolder here;
  const Environment cache{{{"HF_HUB_CACHE", golden().string()}, {"HF_HUB_OFFLINE", {}}, {"TRANSFORMERS_OFFLINE", {}}}};
  const auto folder = [](const std::string& named, hub::FolderUse use = hub::FolderUse::kModel) {
    try {
      return hub::folder_of(named, "base_model", use, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(folder("org/whole") == (golden() / "models--org--whole/snapshots" / kFirst).string());
  CHECK(folder("org/whole@other") == (golden() / "models--org--whole/snapshots" / kSecond).string());
  CHECK(folder("bare", hub::FolderUse::kConfig) == (golden() / "models--bare/snapshots" / kFirst).string());
  for (const std::string& path : {here.path().string(), std::string("none"), std::string("./org/whole"), std::string()})
    CHECK(folder(path) == path);
  CHECK(folder("org/cut") == "[base_model] expected all files of org/cut in " +
                                 (golden() / "models--org--cut/snapshots" / kFirst).string() +
                                 ", got none called model-00002-of-00002.safetensors; fetch it with `spillway fetch "
                                 "org/cut`, or name a folder");
  CHECK(folder("org/none") == "[base_model] expected a folder, or a name of the hub that " + golden().string() +
                                  " has, got 'org/none', which is neither; fetch it with `spillway fetch org/none`, or "
                                  "name a folder");
  CHECK(folder("src/none") == "src/none");  // below a folder that is here
  CHECK(hub::name_elsewhere(folder("org/whole")) == "org/whole");
  CHECK(hub::name_elsewhere("models/mine") == "models/mine");
}

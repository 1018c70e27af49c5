#include "model/dit/adapter_files.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "tests/support/source_folder.h"

using namespace spillway;
namespace fs = std::filesystem;

namespace {

constexpr AdapterNames kNamings[] = {AdapterNames::kComfyUi, AdapterNames::kKohya};

fs::path golden_videos() { return testing::source_folder() / "tests/golden/video"; }

// A file of the tensors, each of ones.
void write_ones(const fs::path& path, const std::vector<TensorSpec>& specs) {
  SafetensorsWriter writer(path, specs);
  for (const TensorSpec& spec : specs) {
    const std::vector<float> ones(static_cast<size_t>(spec.elems()), 1.0F);
    writer.append(spec.name, ones.data(), DType::kF32, spec.elems());
  }
  writer.commit();
}

std::string import_failure(const TemporaryFolder& folder, const std::vector<TensorSpec>& specs) {
  fs::remove(folder.path() / "a.safetensors");
  write_ones(folder.path() / "a.safetensors", specs);
  try {
    (void)import_video_adapter(folder.path() / "a.safetensors", folder.path() / "out");
  } catch (const InputError& error) {
    CHECK_FALSE(fs::exists(folder.path() / "out"));
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the tensors of a Wan adapter have the names that diffusers reads in files of ComfyUI and kohya's trainer") {
  const auto golden = nlohmann::json::parse(read_file(golden_videos() / "adapter_names.json", 1 << 20));
  for (const AdapterNames names : kNamings) {
    const nlohmann::json& theirs = golden[names == AdapterNames::kComfyUi ? "comfyui" : "kohya"];
    CHECK(theirs.size() == 48);
    for (const auto& [foreign, name] : theirs.items()) {
      CAPTURE(foreign);
      const std::string own = name.get<std::string>().substr(std::string("transformer.").size());
      CHECK(own_factor_name(foreign) == own);
      CHECK(foreign_factor_name(own, names) == foreign);
    }
  }
  CHECK(own_factor_name("diffusion_model.blocks.3.ffn.0.lora_down.weight") == "blocks.3.ffn.net.0.proj.lora_A.weight");
  for (const char* name : {"diffusion_model.head.head.lora_A.weight", "blocks.0.ffn.0.lora_A.weight",
                           "lora_unet_blocks_x_ffn_0.alpha", "diffusion_model.blocks.0.ffn.0.diff_b"})
    CHECK(own_factor_name(name).empty());
}

TEST_CASE("an adapter of a video model goes to a file and comes back to the bit, with its alpha") {
  for (const char* of : {"i2v", "odd"}) {
    for (const AdapterNames names : kNamings) {
      CAPTURE(of);
      const TemporaryFolder folder;
      const fs::path file = folder.path() / "a.safetensors", back = folder.path() / "back";
      const AdapterFileReport report = export_video_adapter(golden_videos() / of / "lora", names, file);
      CHECK(import_video_adapter(file, back).layers == report.layers);
      const SafetensorsFile before(golden_videos() / of / "lora/pytorch_lora_weights.safetensors"), there(file),
          after(back / "pytorch_lora_weights.safetensors");
      CHECK(after.metadata() == before.metadata());
      std::map<std::string, std::string> bytes[2];
      for (const SafetensorsFile* one : {&before, &after}) {
        for (const StoredTensor& tensor : one->tensors()) {
          std::string content(static_cast<size_t>(tensor.bytes), '\0');
          one->read_bytes(tensor, 0, std::as_writable_bytes(std::span(content)));
          bytes[one == &after ? 1 : 0][tensor.name + tensor.dtype_name + tensor.shape_text()] = content;
        }
      }
      CHECK(bytes[0] == bytes[1]);
      CHECK(std::ssize(there.tensors()) == std::ssize(before.tensors()) + report.layers);
      // The alpha is that of the metadata.
      const auto said = nlohmann::json::parse(before.metadata().at("lora_adapter_metadata"));
      for (const StoredTensor& tensor : there.tensors()) {
        if (!tensor.name.ends_with(".alpha")) continue;
        float alpha = 0;
        there.read(tensor, 0, 1, DType::kF32, &alpha);
        CHECK(alpha == said["transformer.lora_alpha"].get<float>());
      }
    }
  }
}

TEST_CASE("a file without metadata has the alpha of its tensors, or its rank") {
  const TemporaryFolder folder;
  const std::string q = "lora_unet_blocks_0_self_attn_q";
  write_ones(folder.path() / "a.safetensors", {{q + ".lora_down.weight", DType::kBF16, {4, 8}},
                                               {q + ".lora_up.weight", DType::kBF16, {8, 4}},
                                               {q + ".alpha", DType::kF32, {}}});
  (void)import_video_adapter(folder.path() / "a.safetensors", folder.path() / "out");
  const SafetensorsFile out(folder.path() / "out/pytorch_lora_weights.safetensors");
  const auto said = nlohmann::json::parse(out.metadata().at("lora_adapter_metadata"));
  CHECK(said["transformer.r"] == 4);
  CHECK(said["transformer.lora_alpha"] == 1);
  CHECK(said["transformer.target_modules"] == std::vector<std::string>{"attn1.to_q"});
  CHECK(out.tensors().size() == 2);
  CHECK(out.tensors()[0].dtype_name == "BF16");
}

TEST_CASE("files that are no adapter of a Wan transformer's blocks are refused, with the tensor") {
  const TemporaryFolder folder;
  const std::string q = "diffusion_model.blocks.0.self_attn.q", k = "diffusion_model.blocks.0.self_attn.k";
  const TensorSpec a{q + ".lora_A.weight", DType::kF32, {4, 8}}, b{q + ".lora_B.weight", DType::kF32, {8, 4}};
  const auto refused = [&](const std::vector<TensorSpec>& specs, const std::string& text) {
    const std::string message = import_failure(folder, specs);
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  refused({a, b, {"diffusion_model.head.head.lora_A.weight", DType::kF32, {4, 8}}},
          "'diffusion_model.head.head.lora_A");
  refused({a}, "expected two factors of blocks.0.attn1.to_q, got 1");
  refused({a, b, {k + ".lora_A.weight", DType::kF32, {2, 8}}, {k + ".lora_B.weight", DType::kF32, {8, 2}}},
          "expected one rank in all layers");
  const TensorSpec other_a{k + ".lora_A.weight", DType::kF32, {4, 8}},
      other_b{k + ".lora_B.weight", DType::kF32, {8, 4}};
  refused({a, b, {q + ".alpha", DType::kF32, {}}, other_a, other_b},
          "expected one alpha in all layers, got 1 in blocks.0");
  refused({a, b, {k + ".alpha", DType::kF32, {}}}, "expected two factors of blocks.0.attn1.to_k, got 0");
  refused({}, "expected factors of a LoRA, got none");
  CHECK_THROWS_WITH_AS(
      (void)export_video_adapter(folder.path(), AdapterNames::kComfyUi, folder.path() / "b.safetensors"),
      doctest::Contains("expected an adapter of a video transformer"), InputError);
}

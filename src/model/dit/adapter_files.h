// LoRA adapters of Wan as other programs name their tensors: ComfyUI, and kohya's trainers (musubi-tuner). Their files
// have the names of the original Wan, the alpha of each layer as a tensor, and say no more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace spillway {

enum class AdapterNames {
  kComfyUi,  // diffusion_model.blocks.0.self_attn.q.lora_A.weight
  kKohya,    // lora_unet_blocks_0_self_attn_q.lora_down.weight
};

struct AdapterFileReport {
  int64_t layers = 0, bytes = 0;
};

// Writes the adapter of a folder in diffusers' layout as a file, whose factors have the bytes of the folder's. The
// metadata goes with them, so that import_video_adapter() makes the same file again. Throws InputError for a file that
// exists, and for what such files cannot say: adapters of language models, DoRA, a rank or an alpha of single layers.
AdapterFileReport export_video_adapter(const std::filesystem::path& folder, AdapterNames names,
                                       const std::filesystem::path& file);

// Returns true for a file of safetensors; `import` takes GGUF files, too.
[[nodiscard]] bool is_adapter_file(const std::filesystem::path& file);

// Writes a folder in diffusers' layout from such a file, of either naming. Where the file has no metadata of ours, it
// is for the pipeline's `transformer`. Throws InputError for tensors that are no factors of a Wan transformer's blocks,
// and for layers with different ranks or alphas; a layer without an alpha has its rank, as in such files.
AdapterFileReport import_video_adapter(const std::filesystem::path& file, const std::filesystem::path& folder);

// Return a factor's name in such a file for one in diffusers' layout, without its component, and the other way round;
// empty for names of nothing that is known.
[[nodiscard]] std::string foreign_factor_name(std::string_view name, AdapterNames names);
[[nodiscard]] std::string own_factor_name(std::string_view foreign);

}  // namespace spillway

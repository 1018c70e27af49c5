// The family of decoders: causal transformers for text, with their Hugging Face names
// ("model.layers.0.self_attn.q_proj.weight", LoRA factors PEFT's). Each decoder layer is one block of the graph.
#pragma once

#include <filesystem>
#include <string>

#include "model/decoder/config.h"
#include "model/model.h"

namespace spillway {

[[nodiscard]] ModelPtr make_decoder(DecoderConfig config);

// Throws InputError as read_decoder_config does.
[[nodiscard]] ModelPtr read_decoder(const std::filesystem::path& folder, const std::string& overrides = {});

}  // namespace spillway

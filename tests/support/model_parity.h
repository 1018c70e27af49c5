// Training of the tiny models held against transformers, torch and peft: what tools/make_model_goldens.py has written
// into tests/golden/models. Everything runs through the real pipeline, plan and all, on the device of the setup.
#pragma once

#include <string>

#include "tests/support/tiny_training.h"

namespace spillway::testing {

// `model` is one of kTinyModels; `setup.adapter` is empty for full fine-tuning, "adapter", or, where the model has it,
// "adapter_rslora", "adapter_saved" or "adapter_dora" (tools/make_adapter_goldens.py), which may be beside a base in
// NF4. With a router_aux_loss_coef of 0.5, the goldens of BALANCED. Where config_overrides name a pad_token_id, the
// goldens are those of it: of full fine-tuning and adapter_saved.

// Loss and gradients of the batch "check", in f32.
void check_gradients(const std::string& model, const TinySetup& setup);
// 20 steps of AdamW, and the weights after them, in f32.
void check_curve(const std::string& model, const TinySetup& setup);
// The same 20 steps in bf16: losses and norms of gradients within its precision, of a mixture on average.
void check_bf16_curve(const std::string& model, TinySetup setup);

}  // namespace spillway::testing

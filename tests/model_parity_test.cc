// Loss, gradients and training curves of tiny models against transformers, torch and peft, on the CPU.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/storages/quantised.h"
#include "tests/support/model_parity.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("loss and gradients equal those of transformers") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_gradients(model, {});
  }
}

TEST_CASE("20 steps of full fine-tuning follow torch's AdamW") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_curve(model, {});
  }
}

TEST_CASE("loss and gradients of adapters equal those of peft") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_gradients(model, {.adapter = "adapter"});
  }
}

TEST_CASE("20 steps of LoRA follow peft with torch's AdamW") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_curve(model, {.adapter = "adapter"});
  }
  check_gradients("llama2", {.adapter = "adapter_rslora"});
  check_curve("llama2", {.adapter = "adapter_rslora"});
}

// PEFT's all-linear: attention, routers and experts, whose gate and up have twice the rank; of models whose files stack
// experts, tensors and modules by their names.
TEST_CASE("factors of experts and routers follow peft") {
  for (const std::string model : {"mixtral", "qwen3_moe", "olmoe", "deepseek_v3", "gemma4_moe", "granitemoe",
                                  "lfm2_moe", "afmoe", "nemotron_h_moe", "jamba"}) {
    CAPTURE(model);
    check_gradients(model, {.adapter = "adapter_experts"});
    check_curve(model, {.adapter = "adapter_experts"});
  }
  check_bf16_curve("olmoe", {.adapter = "adapter_experts"});
}

// Gemma 2 caps logits.
TEST_CASE(
    "tokens that count by their probability, or by the entropy of the likeliest, train as torch's autograd has it") {
  const train::ObjectivePtr entropy = train::entropy_weighted_text_objective({.alpha = 1.5, .top = 7});
  for (const auto& [model, objective] : {std::pair("llama2", train::weighted_text_objective()),
                                         {"gemma2", train::weighted_text_objective()},
                                         {"gemma2", entropy}}) {
    CAPTURE(model);
    check_gradients(model, {.objective = objective});
    check_curve(model, {.objective = objective});
  }
}

// Some steps have two micro-batches, over which the loss is a mean; layers of Qwen3 and Jamba have no router, and a
// bias chooses MiniMax's experts, which the loss does not look at.
TEST_CASE("routers that are trained to use all experts alike follow transformers' load-balancing loss") {
  for (const std::string model : {"qwen3_moe", "mixtral", "minimax_m2", "jamba"}) {
    CAPTURE(model);
    check_gradients(model, {.router_aux_loss_coef = 0.5});
    check_curve(model, {.router_aux_loss_coef = 0.5});
  }
}

// Some sequences are longer than the original length, and have other rotary angles than those beside them.
TEST_CASE("sequences of a stream that longrope tells apart are trained as transformers trains them one by one") {
  for (const char* adapter : {"", "adapter"}) {
    CAPTURE(adapter);
    check_gradients("phi3_long", {.adapter = adapter});
    check_curve("phi3_long", {.adapter = adapter});
  }
}

// The adapters save the embedding and all norms of llama2, without its head, and embedding and head of qwen2_tied with
// four more rows.
TEST_CASE("modules to save are trained in full beside LoRA as peft trains them") {
  for (const std::string model : {"llama2", "qwen2_tied"}) {
    CAPTURE(model);
    check_gradients(model, {.adapter = "adapter_saved"});
    check_curve(model, {.adapter = "adapter_saved"});
  }
}

// The token of pad_token_id occurs in most batches; -1 is the last row, as torch counts. Of llama32 and gemma the head
// is the embedding, whose row the loss changes.
TEST_CASE(
    "the embedding's row of pad_token_id is trained as transformers trains it, with heads of their own and tied") {
  const auto padded = [](int id) { return fmt::format(R"({{"pad_token_id": {}}})", id); };
  for (const auto& [model, id] : {std::pair("llama2", 71), {"llama32", 71}, {"gemma", 71}, {"qwen3", -1}}) {
    CAPTURE(model);
    check_gradients(model, {.config_overrides = padded(id)});
    check_curve(model, {.config_overrides = padded(id)});
  }
  check_gradients("llama2", {.adapter = "adapter_saved", .config_overrides = padded(71)});
  check_curve("llama2", {.adapter = "adapter_saved", .config_overrides = padded(71)});
}

TEST_CASE("DoRA follows peft, beside weights as they are and in NF4") {
  for (const std::string model : {"llama2", "llama_bias", "qwen3"}) {
    CAPTURE(model);
    check_gradients(model, {.adapter = "adapter_dora"});
    check_curve(model, {.adapter = "adapter_dora"});
    check_bf16_curve(model, {.adapter = "adapter_dora"});
  }
  const LinearStorage nf4{quantised_storage({WeightCoding::kNf4, 64, false, DType::kF32})};
  check_gradients("llama2", {.adapter = "adapter_dora", .linear_storage = nf4});
  check_curve("llama2", {.adapter = "adapter_dora", .linear_storage = nf4});
}

TEST_CASE("bf16 follows the curves of f32 within its precision") {
  for (const std::string model : kTinyModels) {
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      check_bf16_curve(model, {.adapter = adapter});
    }
  }
}

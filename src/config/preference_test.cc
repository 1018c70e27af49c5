// Keys of preference training.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "config/load.h"

using namespace spillway;
using namespace spillway::config;

namespace {

// Rows whose columns say what they are.
LoadedConfig load_preference(const std::string& more) {
  return load_config("base_model: ./m\nlearning_rate: 1e-6\ndatasets:\n  - path: a.jsonl\n" + more, "c.yml", {},
                     ConfigUse::kTrain);
}

// Empty where nothing is wrong.
std::string preference_error(const std::string& more) {
  try {
    (void)load_preference(more);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

PreferenceSettings preference(const std::string& text) {
  const auto settings = load_preference(text).config.preference;
  REQUIRE(settings);
  return *settings;
}

bool ignores(const std::string& text, const std::string& key) {
  const std::vector<std::string> ignored = load_preference(text).ignored;
  return std::find(ignored.begin(), ignored.end(), key) != ignored.end();
}

}  // namespace

TEST_CASE("rl and reward_model choose an objective and the loss of its own") {
  CHECK_FALSE(load_preference("").config.preference);
  const std::vector<std::tuple<std::string, PreferenceKind, PreferenceLoss>> all = {
      {"rl: dpo\n", PreferenceKind::kDpo, PreferenceLoss::kSigmoid},
      {"rl: ipo\n", PreferenceKind::kDpo, PreferenceLoss::kIpo},
      {"rl: orpo\n", PreferenceKind::kOrpo, PreferenceLoss::kOddsRatio},
      {"rl: cpo\n", PreferenceKind::kCpo, PreferenceLoss::kSigmoid},
      {"rl: simpo\n", PreferenceKind::kCpo, PreferenceLoss::kSimpo},
      {"rl: kto\nmicro_batch_size: 2\n", PreferenceKind::kKto, PreferenceLoss::kKto},
      {"reward_model: true\n", PreferenceKind::kReward, PreferenceLoss::kBradleyTerry},
      {"process_reward_model: true\n", PreferenceKind::kSteps, PreferenceLoss::kStepLabels}};
  for (const auto& [text, kind, loss] : all) {
    CAPTURE(text);
    const PreferenceSettings settings = preference(text);
    CHECK(settings.kind == kind);
    REQUIRE(settings.losses.size() == 1);
    CHECK(settings.losses[0].loss == loss);
    CHECK(settings.beta == 0.1);
  }
  CHECK(preference_error("rl: dpo\nreward_model: true\n").find("expected rl or reward_model, got both") !=
        std::string::npos);
}

TEST_CASE("losses have the names of TRL and axolotl, and weights") {
  const PreferenceSettings mix = preference("rl: dpo\nloss_type: [sigmoid, sft]\nloss_weights: [1, 0.5]\nbeta: 0.3\n");
  REQUIRE(mix.losses.size() == 2);
  CHECK(mix.losses[1].loss == PreferenceLoss::kSft);
  CHECK(mix.losses[1].weight == 0.5);
  CHECK(mix.beta == 0.3);
  CHECK(preference("rl: dpo\ndpo_loss_type: hinge\n").losses[0].loss == PreferenceLoss::kHinge);
  CHECK(preference("rl: orpo\norpo_alpha: 0.7\n").beta == 0.7);
  CHECK(preference("rl: cpo\nloss_type: [simpo]\nsimpo_gamma: 1.5\ncpo_alpha: 0\n").simpo_gamma == 1.5);
  CHECK(preference_error("rl: dpo\ndpo_loss_type: [hing]\n").find("did you mean hinge?") != std::string::npos);
  CHECK(preference_error("rl: kto\nmicro_batch_size: 2\ndpo_loss_type: [sigmoid]\n") ==
        "[c.yml:7: dpo_loss_type] expected kto or apo_zero_unpaired for kto, got 'sigmoid'; write one of them");
  CHECK(preference_error("rl: dpo\nloss_type: [sigmoid, sft]\nloss_weights: [1]\n") ==
        "[c.yml:7: loss_weights] expected 2 numbers, one for each of dpo_loss_type, got 1; write as many, or remove "
        "the key");
  CHECK(preference_error("rl: cpo\nloss_type: [hinge, ipo]\n").find("only dpo adds several up") != std::string::npos);
  CHECK(preference_error("rl: ipo\ndpo_loss_type: [sigmoid]\n").find("got both") != std::string::npos);
  CHECK(preference_error("loss_type: nll\n").empty());
  CHECK(preference_error("loss_type: [nll, dft]\n").find("expected one loss of text without rl, got 2") !=
        std::string::npos);
  CHECK(preference_error("loss_type: other\n").find("expected nll, chunked_nll or dft without rl, got 'other'") !=
        std::string::npos);
  CHECK(load_preference("loss_type: nll\n").config.text_loss == TextLoss::kCrossEntropy);
  CHECK(load_preference("loss_type: dft\n").config.text_loss == TextLoss::kWeightedByProbability);
}

TEST_CASE("a classifier has as many labels as its objective scores") {
  CHECK(preference_error("reward_model: true\nnum_labels: 1\n").empty());
  CHECK(preference_error("process_reward_model: true\nnum_labels: 2\n").empty());
  CHECK(
      preference_error("reward_model: true\nnum_labels: 2\n").find("num_labels] expected 1 for reward_model, got 2") !=
      std::string::npos);
  CHECK(ignores("num_labels: 2\n", "num_labels"));
}

TEST_CASE("a key of another objective is passed over, and said to be") {
  CHECK(ignores("rl: dpo\nkto_desirable_weight: 2\n", "kto_desirable_weight"));
  CHECK(ignores("rl: orpo\nprecompute_ref_log_probs: true\n", "precompute_ref_log_probs"));
  CHECK(ignores("rl_beta: 0.2\n", "rl_beta"));
  CHECK(ignores("rl: dpo\nlabel_smoothing: 0.1\n", "label_smoothing"));  // which sigmoid does not read
  CHECK_FALSE(ignores("rl: cpo\nlabel_smoothing: 0.1\n", "label_smoothing"));
  CHECK(ignores("rl: dpo\nadapter: lora\nlora_r: 4\nlora_dropout: 0.1\n", "lora_dropout"));
  CHECK(load_preference("rl: dpo\nadapter: lora\nlora_r: 4\nlora_dropout: 0.1\n").config.adapter->dropout == 0);
  CHECK(ignores("disable_dropout: false\n", "disable_dropout"));
  CHECK(ignores("rl: orpo\nref_model: other\n", "ref_model"));
  CHECK(preference("rl: dpo\nref_model: other\n").ref_model == "other");
  CHECK(ignores("rl: dpo\nref_model_sync_steps: 7\n", "ref_model_sync_steps"));
}

TEST_CASE("adapters of preference training have dropout where disable_dropout is false") {
  const std::string dropout = "adapter: lora\nlora_r: 4\nlora_dropout: 0.1\ndisable_dropout: false\n";
  for (const char* objective : {"rl: dpo\n", "rl: orpo\n", "reward_model: true\n"}) {
    CAPTURE(objective);
    CHECK(load_preference(objective + dropout).config.adapter->dropout == 0.1);
    CHECK_FALSE(ignores(objective + dropout, "lora_dropout"));
  }
}

TEST_CASE("what cannot be meant together is refused") {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"rl: dpo\ndpo_loss_type: [exo_pair]\n", "expected a number between 0 and 1 for the loss exo_pair"},
      {"rl: dpo\ndpo_loss_type: [robust]\ndpo_label_smoothing: 0.5\n", "below 0.5 for the loss robust, got 0.5"},
      {"rl: dpo\ndpo_loss_type: [apo_zero]\nf_divergence_type: forward_kl\n", "expected none beside the loss apo_zero"},
      {"rl: dpo\ndpo_loss_type: [aot]\ndpo_use_weighting: true\n", "expected none beside the loss aot"},
      {"rl: kto\n", "expected at least 2 for kto, got 1"},
      {"rl: kto\nmicro_batch_size: 2\ngroup_by_length: true\n", "expected rows in file order for kto"},
      {"rl: dpo\nadapter: lora\nlora_r: 4\nsync_ref_model: true\n", "expected false beside an adapter, got true"},
      {"rl: dpo\nprecompute_ref_log_probs: true\nsync_ref_model: true\n",
       "expected false beside precompute_ref_log_probs"},
      {"rl: dpo\nrl_beta: [0.2, 0.1]\n", "expected one number, got 2; only online_dpo"},
      {"rl: orpo\nrl_beta: 0.2\norpo_alpha: 0.1\n", "expected rl_beta or orpo_alpha, got both"},
      {"rl: dpo\ndpo_loss_type: [exo_pair]\ndpo_label_smoothing: 1\n", "between 0 and 1 for the loss exo_pair"},
      {"rl: dpo\nsample_packing: true\n", "preference rows are not packed"},
      {"rl: dpo\npacking: true\n", "preference rows are not packed"},
      {"rl: orpo\neval_sample_packing: true\n", "preference rows are not packed"},
      {"reward_model: true\nsample_packing: true\n", "expected false beside reward_model"},
      {"rl: dpo\nrpo_alpha: 1\n", "dpo_loss_type: [sigmoid, sft]"}};
  for (const auto& [text, message] : all) {
    CAPTURE(text);
    CAPTURE(preference_error(text));
    CHECK(preference_error(text).find(message) != std::string::npos);
  }
  CHECK(preference_error("rl: kto\ndpo_loss_type: [apo_zero_unpaired]\n").empty());
  const auto sync = preference("rl: dpo\nsync_ref_model: true\nref_model_sync_steps: 7\n").sync;
  REQUIRE(sync);
  CHECK(sync->sync_steps == 7);
  CHECK(sync->mixup_alpha == 0.6);
}

TEST_CASE("kto reads rows in file order where nothing else is said, others shuffle them") {
  CHECK(load_preference("rl: kto\nmicro_batch_size: 2\n").config.data.batches.order == data::RowOrder::kFile);
  CHECK(load_preference("rl: dpo\n").config.data.batches.order == data::RowOrder::kShuffled);
  const std::string unpaired =
      "rl: kto\nmicro_batch_size: 4\ndpo_loss_type: [apo_zero_unpaired]\ngroup_by_length: true\n";
  CHECK(load_preference(unpaired).config.data.batches.order == data::RowOrder::kGroupedByLength);
  CHECK(load_preference("rl: kto\nmicro_batch_size: 4\neval_batch_size: 1\ndpo_loss_type: apo_zero_unpaired\n")
            .config.data.evaluation_batches.rows == 1);
  // Rows lend each other completions within a micro-batch, in an evaluation as in training.
  CHECK(load_preference("rl: kto\nmicro_batch_size: 4\neval_batch_size: 1\n").config.data.evaluation_batches.rows == 4);
}

TEST_CASE("keys that the objective does not read are listed as ignored") {
  const auto ignored = [](const std::string& text) { return load_preference(text).ignored; };
  using Names = std::vector<std::string>;
  CHECK(ignored("rl: dpo\ndiscopop_tau: 0.1\nf_alpha_divergence_coef: 0.5\n") ==
        Names{"discopop_tau", "f_alpha_divergence_coef"});
  CHECK(ignored("rl: dpo\ndpo_loss_type: discopop\ndiscopop_tau: 0.1\n").empty());
  CHECK(ignored("rl: dpo\nf_divergence_type: alpha_divergence\nf_alpha_divergence_coef: 0.5\n").empty());
  CHECK(ignored("rl: dpo\ntrain_on_inputs: true\nassistant_only_loss: true\nmax_prompt_length: 3\n") ==
        Names{"train_on_inputs", "assistant_only_loss"});
  CHECK(ignored("train_on_inputs: true\nmax_prompt_length: 3\nmax_completion_length: 3\n") ==
        Names{"max_prompt_length", "max_completion_length"});
}

// From what the keys say to what it comes to: the one step between Spelled and Config.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/load.h"

namespace spillway::config {

// Gives the keys that a config leaves out the defaults of the program that it was written for, where they differ.
void take_defaults(LoadedConfig& loaded);

// Puts what FastVideo has other words for where the other words put it. Throws InputError.
void take_fastvideo_keys(LoadedConfig& loaded);

// Returns the config that loaded.keys mean. Notes, and verdicts on keys that mean nothing beside others, go into
// `loaded`. Throws InputError for what is required and not there, and for combinations that cannot be meant.
[[nodiscard]] Config resolve(LoadedConfig& loaded, ConfigUse use);

// The input of the functions below, with their ways of reporting.
struct Resolution {
  LoadedConfig& loaded;
  const Spelled& keys = loaded.keys;

  [[nodiscard]] bool given(std::string_view key) const { return loaded.given.find(key) != loaded.given.end(); }
  [[nodiscard]] std::string where(std::string_view key) const {
    const auto found = loaded.given.find(key);
    return found == loaded.given.end() ? std::string(key) : found->second;
  }
  void exclude(std::string_view one, bool one_set, std::string_view other, bool other_set) const {
    if (!one_set || !other_set || !given(one) || !given(other)) return;
    throw input_error(where(other), "expected {} or {}, got both; remove one", one, other);
  }
  void note(std::string text) const { loaded.notes.push_back(std::move(text)); }
  // A key that means nothing beside the others.
  void ignore(std::string_view key, std::string_view why) const { loaded.verdicts.ignore(key, why); }
  // A value that is not yet followed beside the others: "another, got X; WHAT IT IS is". A verdict on the key.
  void not_yet(std::string_view key, std::string_view expected) const;
  // Steps that are no share have to be whole.
  void check_whole(std::string_view key, std::optional<double> steps) const;
};

// The subjects, each with the checks of its keys; all throw InputError.
[[nodiscard]] ModelSettings resolve_model(const Resolution& r);
// None without qat.
[[nodiscard]] std::optional<QatSettings> resolve_qat(const Resolution& r);
[[nodiscard]] TokenizerSettings resolve_tokenizer(const Resolution& r);
[[nodiscard]] std::optional<AdapterSettings> resolve_adapter(const Resolution& r);
[[nodiscard]] std::optional<QuantisationSettings> resolve_quantisation(const Resolution& r);
[[nodiscard]] SaidQuantisation said_quantisation(const Resolution& r);
[[nodiscard]] std::optional<PreferenceSettings> resolve_preference(const Resolution& r, ConfigUse use);
// Returns the loss of a config without rl; cross-entropy for any other.
[[nodiscard]] TextLoss resolve_text_loss(const Resolution& r);
// label_smoothing_factor, where `loss` has any.
[[nodiscard]] double resolve_label_smoothing(const Resolution& r, TextLoss loss);
// None without kd_trainer. `loss` is that of the text.
[[nodiscard]] std::optional<DistillationSettings> resolve_distillation(const Resolution& r, TextLoss loss);
[[nodiscard]] std::optional<OnlineSettings> resolve_online(const Resolution& r, const RankSettings& ranks,
                                                           const BatchSettings& batches, const data::RowOptions& rows);
// Returns the bit of the objective in read_by::Objectives; 0 of text.
[[nodiscard]] uint32_t reader_of(const Spelled& keys);
// rl_beta, `usual` where it is left out, of an objective that has one for the whole run.
[[nodiscard]] double resolve_beta(const Resolution& r, double usual);
// Returns the settings of sync_ref_model; none where it is off. Throws InputError beside an adapter.
[[nodiscard]] std::optional<ReferenceSync> resolve_reference_sync(const Resolution& r);
// Returns true if `name` is a loss of GRPO.
[[nodiscard]] bool is_policy_loss(std::string_view name);
// None where nothing generates completions. REQUIRES of kRewards: nothing; it throws without functions.
[[nodiscard]] std::optional<rewards::RewardSettings> resolve_rewards(const Resolution& r, ConfigUse use);
// Returns the template that a name and a text of one's own choose. `key` is what the verdict is on, `where` its place
// in messages.
[[nodiscard]] std::string resolve_template(const Resolution& r, std::string_view key, std::string_view where,
                                           const std::string& said, const std::string& jinja);
// Returns the options of rows. REQUIRES: `data` has its datasets.
[[nodiscard]] data::RowOptions resolve_rows(const Resolution& r, const data::DataSettings& data);
// Everything but `batches` and `evaluation_batches`.
[[nodiscard]] data::DataSettings resolve_data(const Resolution& r);
[[nodiscard]] RankSettings resolve_ranks(const Resolution& r);
[[nodiscard]] BatchSettings resolve_batches(const Resolution& r, const RankSettings& ranks,
                                            const data::DataSettings& data);
// Fills `batches` and `evaluation_batches`.
void resolve_packing(const Resolution& r, const BatchSettings& batches, data::DataSettings& data);
// Returns true if a stream's records come in another order than the data's.
[[nodiscard]] bool shuffles_stream(const Resolution& r, data::LengthRules rules);
[[nodiscard]] ScheduleSettings resolve_schedule(const Resolution& r);
[[nodiscard]] OptimizerSettings resolve_optimizer(const Resolution& r);
[[nodiscard]] OutputSettings resolve_output(const Resolution& r, const data::DataSettings& data);
// Checks the keys of trackers, and ignores those of trackers that are not asked for. Returns true if event files for
// TensorBoard are.
[[nodiscard]] bool resolve_trackers(const Resolution& r);
[[nodiscard]] SampleSettings resolve_samples(const Resolution& r);
[[nodiscard]] VideoSettings resolve_video(const Resolution& r);
[[nodiscard]] MemorySettings resolve_memory(const Resolution& r);
[[nodiscard]] OffloadSettings resolve_offload(const Resolution& r);

}  // namespace spillway::config

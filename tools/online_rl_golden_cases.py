"""The cases of tests/golden/online_rl (make_online_rl_goldens.py runs them).

Jobs: full, lora (a fresh adapter), continued (an adapter that is not). `trl` is the section of the config and TRL's arguments at once.
"""

MICRO, ACCUMULATION, GROUP, STEPS, LENGTH = 4, 2, 4, 4, 10
OVERLONG = {"name": "get_soft_overlong_punishment", "max_completion_len": 8, "soft_punish_cache": 6}
REPETITION = {"name": "get_repetition_penalty_reward", "ngram_size": 1, "max_penalty": -1.0}
OWN = "rewards.ids_score"


def case(name, job, trl, rl="grpo", funcs=(OVERLONG, REPETITION, OWN), model="llama", steps=STEPS, micro=MICRO, accumulation=ACCUMULATION, pad=None):
    common = {"reward_funcs": list(funcs), "temperature": 1.0}
    common |= {"max_new_tokens": LENGTH} if rl == "online_dpo" else {"num_generations": GROUP, "max_completion_length": LENGTH}
    return {"name": f"{name}_{job}", "rl": rl, "job": job, "trl": {**common, **trl}, "model": model, "steps": steps, "micro": micro,
            "accumulation": accumulation, "pad": pad}


def plain_cases():
    """One pass over each round: the ratio is 1, old log-probabilities are not computed."""
    return [
        case("grpo", "full", {"loss_type": "grpo"}),
        case("dapo", "lora", {"loss_type": "dapo"}),
        case("dapo_rounds", "lora", {"loss_type": "dapo", "steps_per_generation": 1, "temperature": 0.9}, steps=3),
        case("scale_batch", "lora", {"loss_type": "grpo", "scale_rewards": "batch", "temperature": 0.9}),
        case("scale_none", "lora", {"loss_type": "dr_grpo", "scale_rewards": False}),
        case("gdpo", "lora", {"loss_type": "dapo"}, rl="gdpo"),
        case("normalize_then_sum", "lora", {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [0.5, 0.25, 1.0], "temperature": 0.9}),
        case("weights", "lora", {"loss_type": "grpo", "reward_weights": [0.5, -1.0, 2.0]}),
        case("unscorable", "lora", {"loss_type": "bnpo", "num_generations": 2}, funcs=[OWN]),
        case("unscorable_sum", "lora", {"multi_objective_aggregation": "normalize_then_sum", "num_generations": 2}, funcs=[OWN]),
    ]


def loss_cases():
    """Each loss with two passes over a round, so that in the second the ratio is not 1."""
    twice = {"num_iterations": 2}
    return [
        case("dapo_twice", "lora", {**twice, "loss_type": "dapo"}),
        case("grpo_twice", "lora", {**twice, "loss_type": "grpo", "temperature": 0.9}),
        case("bnpo_twice", "lora", {**twice, "loss_type": "bnpo"}),
        case("dr_grpo_twice", "lora", {**twice, "loss_type": "dr_grpo", "temperature": 0.9}),
        case("cispo_twice", "lora", {**twice, "loss_type": "cispo", "epsilon_high": 1.1}),
        case("sapo_twice", "lora", {**twice, "loss_type": "sapo"}),
        case("luspo_twice", "lora", {**twice, "loss_type": "luspo", "importance_sampling_level": "sequence"}),
        case("luspo_token", "lora", {**twice, "loss_type": "luspo", "temperature": 0.9}),
        case("vespo_twice", "lora", {**twice, "loss_type": "vespo"}),
        case("vespo_keys", "lora", {**twice, "loss_type": "vespo", "vespo_k_pos": 1.5, "vespo_lambda_pos": 2.0, "vespo_k_neg": 2.5, "vespo_lambda_neg": 1.5}),
        case("sapo_keys", "lora", {**twice, "loss_type": "sapo", "sapo_temperature_pos": 1.5, "sapo_temperature_neg": 3.0}),
        case("delta", "lora", {**twice, "loss_type": "grpo", "epsilon": 0.1, "epsilon_high": 0.3, "delta": 1.35}),
        case("gspo", "lora", {**twice, "loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.08}),
        case("gspo_delta", "lora", {**twice, "loss_type": "dapo", "importance_sampling_level": "sequence", "delta": 1.05}),
    ]


def round_cases():
    """Rounds and steps of different lengths. In `epoch` an epoch has two rounds of five slices: its third step has two, two rows are dropped."""
    return [
        case("slices", "lora", {"loss_type": "dapo", "generation_batch_size": 16}),
        case("slices_thrice", "lora", {"loss_type": "grpo", "steps_per_generation": 1, "num_iterations": 3, "temperature": 0.9}),
        case("epoch", "lora", {"loss_type": "dapo", "steps_per_generation": 5, "temperature": 0.9}, steps=5, accumulation=4),
        case("epoch_grpo", "lora", {"loss_type": "grpo", "steps_per_generation": 5, "beta": 0.1}, steps=5, accumulation=4),
    ]


def mask_cases():
    """Slices of two: some hold no token at all where truncated completions are masked."""
    masked, small = {"mask_truncated_completions": True}, {"micro": 2, "accumulation": 4, "steps": 3}
    cases = [case(f"masked_{loss}", "lora", {**masked, "loss_type": loss}, **small) for loss in ("dapo", "grpo", "bnpo", "dr_grpo")]
    return cases + [
        case("masked_beta", "lora", {**masked, "num_iterations": 2, "beta": 0.1}, **small),
        case("masked_gspo", "lora", {**masked, "num_iterations": 2, "loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05}, **small),
        case("masked_top_entropy", "lora", {**masked, "num_iterations": 2, "top_entropy_quantile": 0.5}, **small),
        case("top_entropy", "lora", {"num_iterations": 2, "loss_type": "grpo", "top_entropy_quantile": 0.5}),
        case("top_entropy_beta", "lora", {"num_iterations": 2, "top_entropy_quantile": 0.3, "entropy_coef": 0.1, "beta": 0.1, "temperature": 0.9}),
        case("off_policy", "lora", {"num_iterations": 3, "off_policy_mask_threshold": 0.02}, steps=3),
        case("off_policy_beta", "lora", {"num_iterations": 3, "loss_type": "grpo", "off_policy_mask_threshold": 0.02, "beta": 0.05}, steps=3),
    ]


def entropy_cases():
    adaptive = {"use_adaptive_entropy": True, "entropy_coef_delta": 0.05, "entropy_coef_max": 0.2}
    return [
        case("entropy", "lora", {"loss_type": "grpo", "entropy_coef": 0.1}),
        case("entropy_dapo", "lora", {"loss_type": "dapo", "num_iterations": 2, "entropy_coef": 0.1, "temperature": 0.9}),
        case("entropy_adaptive", "lora", {"loss_type": "bnpo", "entropy_coef": 0.1, "entropy_target": 3.2, **adaptive}, steps=5),
        case("entropy_adaptive_top", "lora", {"top_entropy_quantile": 0.5, "num_iterations": 2, "entropy_target": 4.6, **adaptive}, steps=5),
    ]


def reference_cases():
    beta, twice, plain = {"beta": 0.1}, {"num_iterations": 2}, {"use_bias_correction_kl": False}
    sync = {"sync_ref_model": True, "ref_model_mixup_alpha": 0.6, "ref_model_sync_steps": 2}
    return [
        case("beta", "lora", {**beta, **twice}),
        case("beta_plain", "lora", {**beta, **twice, **plain, "temperature": 0.9}),
        case("beta", "full", {**beta, **twice, "loss_type": "grpo", "temperature": 0.9}),
        case("beta_plain", "full", {**beta, **plain}),
        case("beta", "continued", {**beta, **twice}),
        case("beta_cispo", "continued", {**beta, **plain, "loss_type": "cispo", "epsilon_high": 1.1, "temperature": 0.9}),
        case("beta_sequence", "lora", {**beta, **twice, "loss_type": "grpo", "importance_sampling_level": "sequence", "delta": 1.1}),
        case("dapo", "continued", twice),
        case("sync", "full", {**beta, **sync, "loss_type": "grpo"}, steps=5),
    ]


def qwen3_cases():
    twice = {"num_iterations": 2}
    return [case("qwen3", "full", {**twice, "beta": 0.1}, model="qwen3"), case("qwen3", "lora", {**twice, "loss_type": "grpo"}, model="qwen3"),
            case("qwen3_rloo", "lora", twice, rl="rloo", model="qwen3")]


def padded_cases():
    """The row of config.json's pad_token_id, a token that occurs in prompts and completions, gets no gradient by look-ups. The Llama's
    head is tied to the embedding; that of `untied`, whose own config.json has a pad_token_id, is not."""
    twice = {"num_iterations": 2, "loss_type": "grpo"}
    return [case("padded", "full", twice, pad=225, steps=5), case("untied", "full", twice, model="untied", steps=5)]


def rloo_cases():
    pairs = {"num_generations": 2, "beta": 0.05}
    return [
        case("rloo_pairs", "full", pairs, rl="rloo"),
        case("rloo_pairs", "lora", {**pairs, "num_iterations": 2, "temperature": 0.9}, rl="rloo"),
        case("rloo", "lora", {"num_iterations": 2, "beta": 0.1, "epsilon": 0.1, "epsilon_high": 0.4}, rl="rloo"),
        case("rloo_clip", "lora", {"beta": 0.05, "reward_clip_range": [-0.4, 0.9], "normalize_advantages": True}, rl="rloo"),
        case("rloo_normalize", "lora", {"beta": 0.0, "num_iterations": 2, "normalize_advantages": True}, rl="rloo"),
        case("rloo", "continued", {"beta": 0.1, "num_iterations": 2}, rl="rloo"),
        case("rloo_masked", "lora", {"mask_truncated_completions": True, "num_iterations": 2}, rl="rloo", micro=2, accumulation=4, steps=3),
        case("rloo_unscorable", "lora", {"num_generations": 2, "steps_per_generation": 4, "reward_weights": [2.0]}, rl="rloo", funcs=[OWN]),
    ]


def online_dpo_cases():
    one = {"accumulation": 1, "rl": "online_dpo"}
    return [
        case("online_dpo", "full", {"temperature": 0.9, "beta": 0.2}, **one),
        case("online_dpo", "lora", {"beta": 0.2, "reward_weights": [1.0, 0.5, 2.0]}, **one),
        case("online_dpo_ipo", "lora", {"loss_type": "ipo", "beta": 0.2, "temperature": 0.9}, **one),
        case("online_dpo_penalty", "lora", {"missing_eos_penalty": 1.0, "temperature": 0.9}, funcs=[OWN], **one),
        case("online_dpo", "continued", {"beta": 0.2}, **one),
        case("online_dpo_cut", "lora", {"max_length": 16, "beta": 0.2}, **one),
        # An epoch has three steps.
        case("online_dpo_betas", "lora", {"beta": [0.4, 0.1]}, steps=7, **one),
        case("online_dpo_ipo_betas", "lora", {"loss_type": "ipo", "beta": [0.2, 0.5, 0.1], "temperature": 0.9}, steps=7, **one),
    ]


def all_cases():
    return (plain_cases() + loss_cases() + round_cases() + mask_cases() + entropy_cases() + reference_cases() + qwen3_cases() + padded_cases()
            + rloo_cases() + online_dpo_cases())

"""The parts that the peers that train with TRL have in common. Import it once the threads are set in the environment."""

import time

import datasets
import peft
import torch
import transformers
import trl


class StepClock(transformers.TrainerCallback):
    """Wall time of each optimizer step, from taking the batch to the weights' update, and what TRL logs of it."""

    def __init__(self):
        self.seconds, self.logs = [], []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.start)

    def on_log(self, _args, _state, _control, logs=None, **__):
        if logs and "loss" in logs:
            self.logs.append(dict(logs))

    def logged(self, key):
        return [line[key] for line in self.logs]


def trainer_arguments(args, clock):
    """The arguments of any trainer that come of the command line: --job, --dtype, --rank, --target-modules where the peer
    has it, and the model."""
    lora = peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0,
                           target_modules=getattr(args, "target_modules", "all-linear"), task_type="CAUSAL_LM")
    return {"model": transformers.AutoModelForCausalLM.from_pretrained(
                args.model, dtype=torch.float32 if args.dtype == "f32" else torch.bfloat16),
            "processing_class": transformers.AutoTokenizer.from_pretrained(args.model),
            "peft_config": lora if args.job == "lora" else None, "callbacks": [clock]}


def config_arguments(args):
    """Returns the arguments of any trainer's config: nothing saved, nothing reported, AdamW at a constant rate."""
    return {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True, "max_steps": args.steps,
            "learning_rate": args.learning_rate, "lr_scheduler_type": "constant", "weight_decay": 0.0,
            "optim": "adamw_torch_fused", "bf16": False, "gradient_checkpointing": args.gradient_checkpointing,
            "logging_steps": 1, "logging_strategy": "steps"}


def prepare(threads):
    torch.set_num_threads(threads)
    datasets.disable_progress_bars()


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def measured(args, clock):
    """Prints the results that every peer prints."""
    return {"program": f"trl {trl.__version__}, peft {peft.__version__}, torch {torch.__version__}",
            "threads": args.threads, "step_seconds": clock.seconds, "losses": clock.logged("loss"),
            "peak_rss_bytes": peak_rss_bytes()}

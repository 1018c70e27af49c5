#include "train/config_keys.h"

namespace spillway::train {

std::vector<KeySection> memory_sections() {
  KeySection section{"Device and memory", {}};
  section.keys = {
      key<&Config::device>("device", "auto or cpu"),
      key<&Config::memory, &MemoryConfig::device>("memory.device", "budget of device memory: bytes, 12GiB or 80%"),
      key<&Config::memory, &MemoryConfig::host>("memory.host", "budget of host memory"),
      key<&Config::memory, &MemoryConfig::disk>("memory.disk", "budget of disk space"),
      key<&Config::memory, &MemoryConfig::disk_paths>("memory.disk_paths",
                                                      "folders of the disk tier; left out: OUTPUT/scratch"),
      key<&Config::memory, &MemoryConfig::plan>(
          "memory.plan", "auto: what no key fixes is the plan's choice; fixed: only what the keys say"),
      not_yet("parameter_offload", "weights outside device memory"),
      not_yet("gradient_offload", "gradients outside device memory"),
      not_yet("optimizer_offload", "optimizer states outside device memory"),
      not_yet("layer_offloading", "layers outside device memory"),
      not_yet("activation_offloading", "saved activations outside device memory"),
      not_yet("selective_checkpointing", "recomputing part of a layer"),
      not_yet("deepspeed", "DeepSpeed sections"),
      not_yet("fsdp", "sharding over ranks"),
      not_yet("fsdp_config", "sharding over ranks"),
      not_yet("fsdp_version", "sharding over ranks").or_values({"1", "2"}),
      not_yet("sequence_parallel_degree", "sequences split over ranks").or_values({"1"}),
      not_yet("context_parallel_size", "sequences split over ranks").or_values({"1"}),
      not_yet("tensor_parallel_size", "weights split over ranks").or_values({"1"}),
      not_yet("dp_shard_size", "sharding over ranks").or_values({"1"}),
      not_yet("dp_replicate_size", "replicas over ranks").or_values({"1"}),
      not_yet("gpu_memory_limit", "another spelling of memory.device,"),
      not_yet("max_memory", "another spelling of memory.device,"),
  };
  add_ignored(
      section, "the plan places everything, on one rank",
      {"device_map", "low_cpu_mem_usage", "world_size", "local_rank", "ddp", "ddp_*", "heads_k_stride",
       "ring_attn_func", "parallelism_config", "use_cpu", "use_ray", "ray_*", "resources_per_worker", "torch_dist_*"});
  return {section};
}

}  // namespace spillway::train

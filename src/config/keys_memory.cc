#include "config/keys.h"

namespace spillway::config {

std::vector<KeySection> memory_sections() {
  KeySection section{"Device and memory", {}};
  section.keys = {
      key<&Spelled::device>("device", "auto (a GPU where there is one), cpu, cuda or cuda:N"),
      key<&Spelled::memory, &SpelledMemory::device>("memory.device", "budget of device memory: bytes, 12GiB or 80%"),
      key<&Spelled::memory, &SpelledMemory::host>("memory.host", "budget of host memory"),
      key<&Spelled::memory, &SpelledMemory::disk>("memory.disk", "budget of disk space"),
      key<&Spelled::memory, &SpelledMemory::disk_paths>("memory.disk_paths",
                                                        "folders of the disk tier; left out: OUTPUT/scratch")
          .path(),
      key<&Spelled::gpu_memory_limit>("gpu_memory_limit", "axolotl's: memory.device, in GiB where it is a bare number"),
      key<&Spelled::max_memory>("max_memory",
                                "accelerate's budgets: memory.device by the device's number, memory.host as cpu, "
                                "memory.disk as disk; bare numbers are bytes"),
      key<&Spelled::memory, &SpelledMemory::plan>(
          "memory.plan", "auto: what no key fixes is the plan's choice; fixed: only what the keys say"),
      key<&Spelled::memory, &SpelledMemory::disk_checksum>(
          "memory.disk_checksum", "check every block that comes back from the disk tier; to find broken hardware"),
      key<&Spelled::memory, &SpelledMemory::generation_sequences>(
          "memory.generation_sequences",
          "how many completions are generated at once; auto: as many as fit. It changes none of them"),
      key<&Spelled::activation_offloading>(
          "activation_offloading",
          "where saved activations wait for the backward pass: true is host memory, legacy the same while compute "
          "waits, disk, hidden_states host memory for block inputs only; left out: by memory.plan"),
      key<&Spelled::layer_offloading>("layer_offloading",
                                      "where frozen weights of blocks live, true being host; left out: by memory.plan"),
      key<&Spelled::parameter_offload>(
          "parameter_offload",
          "where weights live: trainable ones, frozen ones where layer_offloading says nothing, "
          "embedding and head; left out: by memory.plan"),
      key<&Spelled::gradient_offload>("gradient_offload", "where gradients live; left out: by memory.plan"),
      key<&Spelled::optimizer_offload>("optimizer_offload",
                                       "where f32 masters and optimizer states live; left out: by memory.plan"),
      key<&Spelled::deepspeed>("deepspeed", "DeepSpeed's config: a file, JSON text or a mapping; see docs/modes/"),
      key<&Spelled::fsdp>("fsdp_config",
                          "FSDP's config, a mapping: its offload flag is followed, the rest is about several ranks"),
      key<&Spelled::fsdp>("fsdp", "FSDP's words: offload is followed, the rest is about several ranks"),
  };
  return {section};
}

}  // namespace spillway::config

#include "cli/generation_arguments.h"

#include <algorithm>

#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "plan/budget.h"
#include "runtime/machine_cache.h"

namespace spillway {

void ModelArguments::add_to(CommandLine& line) {
  line.model(model, "the model folder");
  line.adapter(adapter, "a PEFT adapter for it");
  add_place_to(line, "for each token of all prompts, or each batch of texts");
}

void ModelArguments::add_place_to(CommandLine& line, std::string_view read_when) {
  line.option("--device NAME", device, "where it computes: auto (a GPU where there is one), cpu, cuda or cuda:N");
  line.option("--memory.device SIZE", memory,
              fmt::format("what weights and caches may take of it, such as 2GiB; what does not fit comes from host "
                          "memory or the model's files {}",
                          read_when));
  line.option("--memory.host SIZE", host_memory,
              "what weights that do not fit may take of host memory; beside a GPU, what is free");
}

namespace {

// Returns the bytes of all weights below a model's folder.
int64_t weight_bytes(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".safetensors") continue;
    std::error_code of_file;
    const uintmax_t size = entry->file_size(of_file);
    if (!of_file) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace

infer::InferenceBudget ModelArguments::budget(Device& on, std::string_view instead) const {
  const bool is_apart = !on.shares_host_memory();
  const int64_t free = on.free_bytes(), ram = is_apart ? available_memory_bytes() : free;
  if (memory.empty() && host_memory.empty() && !is_apart) {
    const int64_t weights = weight_bytes(model);
    if (weights <= usable_bytes(free)) return {};
    log_info(
        "the weights take {}, more than the memory that is free: those that do not fit are read when they are used",
        format_bytes(weights));
  }
  infer::InferenceBudget budget{.machine = this_machine({}, on), .instead = instead};
  if (!host_memory.empty()) {
    budget.host_bytes = parse_bytes(host_memory, ram, "--memory.host");
  } else if (is_apart) {
    budget.host_bytes = usable_bytes(ram);
  }
  const int64_t left = is_apart ? free - kGpuReserve : usable_bytes(free) - budget.host_bytes;
  budget.device_bytes = memory.empty() ? std::max<int64_t>(0, left) : parse_bytes(memory, free, "--memory.device");
  return budget;
}

std::filesystem::path ModelArguments::tokenizer_folder() const {
  const bool brings_one =
      !adapter.empty() && std::filesystem::is_regular_file(std::filesystem::path(adapter) / "tokenizer.json");
  return brings_one ? adapter : model;
}

int64_t ModelArguments::context(int64_t wanted) const {
  constexpr int64_t kUsual = 4096;
  const int64_t most = text_of(*read_model(model), model).max_position_embeddings;
  if (most > 0 && wanted > most)
    throw input_error("--context", "expected at most the {} tokens that the model was made for, got {}; lower it", most,
                      wanted);
  if (wanted > 0) return wanted;
  return most > 0 ? std::min(most, kUsual) : kUsual;
}

void SamplingArguments::add_to(CommandLine& line) {
  line.section("Sampling");
  line.option("--max-new-tokens N", sampling.max_new_tokens, "stop after so many", 1, kMaxNewTokens);
  line.option("--temperature T", sampling.temperature, "0 takes the most likely token", 0.0, kMaxTemperature);
  line.option("--top-p P", sampling.top_p, "only from the most likely tokens that together reach P", 0.0, 1.0);
  line.option("--top-k K", sampling.top_k, "only from the K most likely tokens; 0 from all", 0, kMaxTopK);
  line.option("--min-p P", sampling.min_p, "only from tokens at least P times as likely as the likeliest", 0.0, 1.0);
  line.option("--repetition-penalty R", penalties.repetition,
              "1 is none; 0 takes that of the model's generation_config.json", 0.0, infer::kMaxRepetitionPenalty);
  line.option("--presence-penalty P", penalties.presence, "makes what the answer has already said less likely",
              -infer::kMaxAnswerPenalty, infer::kMaxAnswerPenalty);
  line.option("--frequency-penalty P", penalties.frequency, "the same, once for each time it was said",
              -infer::kMaxAnswerPenalty, infer::kMaxAnswerPenalty);
  line.option("--seed N", sampling.seed, "another one samples another text");
}

LoadedModel::LoadedModel(const ModelArguments& arguments, const SamplingArguments& sampling,
                         const infer::GenerationSizes& sizes)
    : pool_(available_cpus()), device_(open_device(arguments.device)) {
  const infer::GeneratorOptions options{.model = arguments.model,
                                        .adapter = arguments.adapter,
                                        .sizes = sizes,
                                        .penalties = sampling.penalties,
                                        .budget = arguments.budget(*device_, "ask for fewer or shorter answers")};
  generator_ = std::make_unique<infer::Generator>(options, pool_, *device_);
}

}  // namespace spillway

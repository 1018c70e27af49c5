#include "cli/cmd_export.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/modelfile.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "model/gguf/export.h"
#include "report/progress.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

struct ExportFlags {
  std::string model, adapter, gguf, lora_gguf, type, modelfile;
  bool json = false;
};

ExportReport write(const ExportFlags& options) {
  const std::string type = !options.type.empty() ? options.type : options.gguf.empty() ? "f32" : "f16";
  Progress progress({});
  const ExportOptions how{.type = &find_gguf_file_type(type), .progress = [&](int64_t done, int64_t total) {
                            progress.load({.what = "weights", .bytes = done, .total_bytes = total}, now_seconds());
                          }};
  ExportReport report;
  if (options.gguf.empty()) {
    if (options.adapter.empty())
      throw input_error("--lora-gguf", "expected --adapter beside it, got none; name the adapter's folder");
    report = export_gguf_adapter(options.model, options.adapter, options.lora_gguf, how);
  } else {
    const auto adapter = options.adapter.empty() ? std::nullopt : std::optional<std::filesystem::path>(options.adapter);
    report = export_gguf(options.model, adapter, options.gguf, how);
  }
  progress.clear();
  return report;
}

const std::string& file_of(const ExportFlags& options) {
  return options.gguf.empty() ? options.lora_gguf : options.gguf;
}

void write_modelfile(const ExportFlags& options) {
  const std::filesystem::path adapter = options.adapter;
  const bool brings_tokenizer = !options.adapter.empty() && std::filesystem::exists(adapter / "tokenizer.json");
  const auto tokenizer = text::Tokenizer::load(brings_tokenizer ? adapter : std::filesystem::path(options.model));
  write_file(options.modelfile, options.gguf.empty() ? modelfile_text(options.model, options.lora_gguf, tokenizer)
                                                     : modelfile_text(options.gguf, {}, tokenizer));
}

}  // namespace

int cmd_export(std::span<const std::string> args) {
  ExportFlags options;
  CommandLine line("spillway export", "Writes a GGUF file, as llama.cpp's converter does, for llama.cpp and Ollama.");
  line.model(options.model, "the model's folder");
  line.adapter(options.adapter, "a PEFT adapter for it, which --gguf merges");
  line.section("Exactly one of");
  line.option("--gguf FILE", options.gguf, "the model's file to write, which must not exist");
  line.option("--lora-gguf FILE", options.lora_gguf, "the adapter's alone, for llama.cpp's --lora");
  line.exactly_one_of({"--gguf", "--lora-gguf"});
  line.section("How");
  line.option("--type TYPE", options.type,
              "of the matrices: f32, f16, bf16, q8_0 or q4_k_m; f16 where it is not given, f32 of an adapter");
  line.option("--modelfile FILE", options.modelfile,
              "also what Ollama makes a model of: where the file is and where generation ends; it must not exist");
  line.flag("--json", options.json, "print one JSON document");
  line.example("spillway export ./model --gguf model.gguf --type q4_k_m");
  line.example("spillway export ./base --adapter ./model-out --gguf model.gguf");
  if (!line.parse(args)) return kDone;

  if (!options.modelfile.empty()) check_new_file("--modelfile", options.modelfile);
  check_different_files(options.gguf.empty() ? "--lora-gguf" : "--gguf", file_of(options), "--modelfile",
                        options.modelfile);
  const ExportReport report = write(options);
  if (!options.modelfile.empty()) write_modelfile(options);
  const std::string& file = file_of(options);
  const std::string type = !options.type.empty() ? options.type : options.gguf.empty() ? "f32" : "f16";
  if (options.json) {
    const nlohmann::ordered_json document = {{"file", file},
                                             {"architecture", report.architecture},
                                             {"type", type},
                                             {"tensors", report.tensors},
                                             {"bytes", report.bytes}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: {} model, {} tensors, {} in {}\n", shown_line(file), shown_line(report.architecture),
               report.tensors, format_bytes(report.bytes), type);
  }
  return kDone;
}

}  // namespace spillway

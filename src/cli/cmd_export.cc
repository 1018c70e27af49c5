#include "cli/cmd_export.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

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
#include "model/dit/adapter_files.h"
#include "model/gguf/export.h"
#include "model/merged_weights.h"
#include "model/model.h"
#include "report/progress.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommand = "export";

struct ExportFlags {
  std::string model, adapter, gguf, lora_gguf, ollama, format, out, type, modelfile;
  bool json = false;

  [[nodiscard]] std::string type_of_file() const { return !type.empty() ? type : gguf.empty() ? "f32" : "f16"; }
};

ExportReport write(const ExportFlags& options) {
  Progress progress({});
  const ExportOptions how{.type = &find_gguf_file_type(options.type_of_file()),
                          .progress = [&](int64_t done, int64_t total) {
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

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

// `from`: the GGUF file as the Modelfile names it.
void write_modelfile(const ExportFlags& options, const fs::path& modelfile, const std::string& from) {
  const fs::path adapter = options.adapter;
  const bool brings_tokenizer = !options.adapter.empty() && fs::exists(adapter / "tokenizer.json");
  ModelfileSource source{.from = from, .adapter = {}, .folder = brings_tokenizer ? adapter : fs::path(options.model)};
  if (options.gguf.empty()) source = {absolute(options.model), from, source.folder};
  write_file(modelfile, modelfile_text(source, text::Tokenizer::load(source.folder)));
}

// Writes FOLDER/NAME.gguf and FOLDER/Modelfile, where NAME is the folder's, and sets options.gguf to the file.
ExportReport write_ollama_folder(ExportFlags& options) {
  const fs::path folder = without_trailing_slash(options.ollama);
  check_replaceable("--ollama", folder, kCommand);
  AtomicFolder out(folder, kCommand);
  const std::string name = fs::absolute(folder).lexically_normal().filename().string() + ".gguf";
  options.gguf = (out.path() / name).string();
  ExportReport report = write(options);
  write_modelfile(options, out.path() / "Modelfile", "./" + name);
  out.publish();
  options.gguf = (folder / name).string();
  return report;
}

ExportReport write_files(ExportFlags& options) {
  if (!options.ollama.empty() && !options.modelfile.empty())
    throw input_error("--modelfile", "expected none beside --ollama, whose folder has one, got {}; leave it out",
                      quote(options.modelfile));
  if (!options.ollama.empty()) return write_ollama_folder(options);
  if (!options.modelfile.empty()) check_new_file("--modelfile", options.modelfile);
  check_different_files(options.gguf.empty() ? "--lora-gguf" : "--gguf", file_of(options), "--modelfile",
                        options.modelfile);
  ExportReport report = write(options);
  if (!options.modelfile.empty()) write_modelfile(options, options.modelfile, absolute(file_of(options)));
  return report;
}

void print_report(const ExportFlags& options, const ExportReport& report) {
  const std::string& file = file_of(options);
  const std::string type = options.type_of_file();
  if (options.json) {
    const nlohmann::ordered_json document = {{"file", file},
                                             {"architecture", report.architecture},
                                             {"type", type},
                                             {"tensors", report.tensors},
                                             {"bytes", report.bytes}};
    fmt::print("{}\n", json_text(document, 2));
    return;
  }
  fmt::print("{}: {} model, {} tensors, {} in {}\n", shown_line(file), shown_line(report.architecture), report.tensors,
             format_bytes(report.bytes), type);
  if (!options.ollama.empty()) {
    const fs::path folder = without_trailing_slash(options.ollama);
    fmt::print("then: ollama create {} -f {}\n",
               shown_line(fs::absolute(folder).lexically_normal().filename().string()),
               shown_line((folder / "Modelfile").string()));
  }
}

// Throws unless the model is a video transformer that the adapter's factors fit. Reads headers only.
void check_video_adapter(const fs::path& folder, const fs::path& adapter) {
  ModelPtr model = read_model(folder);
  if (!model->video())
    throw input_error("MODEL", "expected a video transformer beside --format, got {}; name the adapter's base",
                      folder.string());
  (void)MergedWeights(std::move(model), folder, adapter, MergeBase::kFiles);
}

// Writes a video model's adapter as other programs name its tensors.
int write_adapter_file(const ExportFlags& options) {
  if (options.format != "comfyui" && options.format != "kohya")
    throw input_error("--format", "expected comfyui or kohya, got {}; choose one of them", quote(options.format));
  for (const auto& [flag, value] : {std::pair{"--adapter", &options.adapter}, std::pair{"--out", &options.out}}) {
    if (value->empty())
      throw input_error(flag, "expected it beside --format, got none; name the {}",
                        std::string_view(flag) == "--out" ? "file to write" : "adapter's folder");
  }
  for (const auto& [flag, value] : {std::pair{"--type", &options.type}, std::pair{"--modelfile", &options.modelfile}}) {
    if (!value->empty())
      throw input_error(flag, "expected none beside --format, which keeps the adapter's type, got {}; leave it out",
                        quote(*value));
  }
  check_new_file("--out", options.out);
  check_video_adapter(options.model, options.adapter);
  const AdapterNames names = options.format == "kohya" ? AdapterNames::kKohya : AdapterNames::kComfyUi;
  const AdapterFileReport report = export_video_adapter(options.adapter, names, options.out);
  if (options.json) {
    const nlohmann::ordered_json document = {
        {"file", options.out}, {"format", options.format}, {"layers", report.layers}, {"bytes", report.bytes}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: an adapter of {} layers, {}, with the names of {}\n", shown_line(options.out), report.layers,
               format_bytes(report.bytes), options.format);
  }
  return kDone;
}

}  // namespace

int cmd_export(std::span<const std::string> args) {
  ExportFlags options;
  CommandLine line("spillway export",
                   "Writes a GGUF file, as llama.cpp's converter does, for llama.cpp and Ollama; or an adapter of a\n"
                   "video model for ComfyUI.");
  line.model(options.model, "the model's folder");
  line.adapter(options.adapter, "a PEFT adapter for it, which --gguf and --ollama merge");
  line.section("Exactly one of");
  line.option("--gguf FILE", options.gguf, "the model's file to write, which must not exist");
  line.option("--lora-gguf FILE", options.lora_gguf, "the adapter's alone, for llama.cpp's --lora");
  line.option("--ollama FOLDER", options.ollama,
              "a folder for `ollama create`: the model's file and a Modelfile, named as the folder");
  line.option("--format NAME", options.format,
              "of a video model's adapter, as one file: comfyui, or kohya, as musubi-tuner names tensors");
  line.exactly_one_of({"--gguf", "--lora-gguf", "--ollama", "--format"});
  line.section("How");
  line.option("--type TYPE", options.type,
              "of the matrices: f32, f16, bf16, q8_0 or q4_k_m; f16 where it is not given, f32 of an adapter");
  line.option(
      "--modelfile FILE", options.modelfile,
      "also what Ollama makes a model of: the file, its chat template and where generation ends; it must not exist");
  line.option("--out FILE", options.out, "what --format writes, which must not exist");
  line.flag("--json", options.json, "print one JSON document");
  line.example("spillway export ./model --gguf model.gguf --type q4_k_m");
  line.example("spillway export ./base --adapter ./model-out --gguf model.gguf");
  line.example("spillway export ./base --adapter ./model-out --ollama mine --type q8_0");
  line.example("spillway export ./Wan2.1 --adapter ./model-out --format comfyui --out mine.safetensors");
  if (!line.parse(args)) return kDone;

  if (!options.format.empty()) return write_adapter_file(options);
  if (!options.out.empty())
    throw input_error("--out", "expected none without --format, got {}; leave it out", quote(options.out));
  const ExportReport report = write_files(options);
  print_report(options, report);
  return kDone;
}

}  // namespace spillway

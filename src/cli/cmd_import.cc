#include "cli/cmd_import.h"

#include <cstdio>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "model/dit/adapter_files.h"
#include "model/gguf/import.h"
#include "report/progress.h"

namespace spillway {

namespace {

DType import_dtype(const std::string& name) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    if (name == name_of(dtype)) return dtype;
  throw input_error("--dtype", "expected bf16, f16 or f32, got {}; choose one of them", quote(name));
}

int import_adapter(const std::string& file, const std::string& folder, const std::string& dtype, bool json) {
  if (!dtype.empty())
    throw input_error("--dtype", "expected none for an adapter, whose type is kept, got {}; leave it out",
                      quote(dtype));
  const AdapterFileReport report = import_video_adapter(file, folder);
  if (json) {
    const nlohmann::ordered_json document = {{"folder", folder}, {"layers", report.layers}, {"bytes", report.bytes}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: an adapter of {} layers, {}\n", shown_line(folder), report.layers, format_bytes(report.bytes));
  }
  return kDone;
}

}  // namespace

int cmd_import(std::span<const std::string> args) {
  CommandLine line("spillway import",
                   "Writes a Hugging Face folder from a GGUF file, or diffusers' folder of an\n"
                   "adapter from a file of ComfyUI or kohya's trainers.");
  std::string file, folder, dtype;
  bool json = false;
  line.required("FILE", file, "the GGUF file, or an adapter of a Wan transformer, FILE.safetensors");
  line.required("--out FOLDER", folder, "the folder to write: new, empty, or one that this command wrote");
  line.option("--dtype TYPE", dtype,
              "bf16, f16 or f32; left out: that of most of the file's matrices, and bf16 for quantised ones, whose "
              "exact values f32 keeps");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway import model-Q8_0.gguf --out ./model");
  line.example("spillway import wan-style.safetensors --out ./adapter");
  if (!line.parse(args)) return kDone;
  if (is_adapter_file(file)) return import_adapter(file, folder, dtype, json);

  Progress progress({});
  ImportOptions options;
  if (!dtype.empty()) options.dtype = import_dtype(dtype);
  options.progress = [&](int64_t done, int64_t total) {
    progress.load({.what = "weights", .bytes = done, .total_bytes = total}, now_seconds());
  };
  const ImportReport report = import_gguf(file, folder, options);
  progress.clear();
  if (json) {
    const nlohmann::ordered_json document = {
        {"folder", folder},          {"architecture", report.architecture}, {"dtype", name_of(report.dtype)},
        {"tensors", report.tensors}, {"parameters", report.parameters},     {"bytes", report.bytes}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: {} model, {} parameters in {} tensors, {} in {}\n", shown_line(folder),
               shown_line(report.architecture), report.parameters, report.tensors, format_bytes(report.bytes),
               name_of(report.dtype));
  }
  return kDone;
}

}  // namespace spillway

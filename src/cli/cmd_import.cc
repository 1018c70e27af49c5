#include "cli/cmd_import.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/import_gguf.h"

namespace spillway {

int cmd_import(std::span<const std::string> args) {
  CLI::App app("Write a Hugging Face folder from a GGUF file.", "spillway import");
  std::string file, folder, dtype = "bf16";
  bool json = false;
  app.add_option("FILE.gguf", file, "the GGUF file")->required();
  app.add_option("--out", folder, "the folder to write; new or empty")->required();
  app.add_option("--dtype", dtype, "bf16, or f32 to keep the exact values of quantised weights")->capture_default_str();
  app.add_flag("--json", json, "print one JSON document");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw input_error(
        "import", "expected FILE.gguf --out FOLDER [--dtype bf16|f32] [--json], got: {}; see spillway import --help",
        error.what());
  }
  if (dtype != "bf16" && dtype != "f32")
    throw input_error("--dtype", "expected bf16 or f32, got {}; choose one of them", dtype);

  const ImportReport report = import_gguf(file, folder, {.dtype = dtype == "f32" ? DType::kF32 : DType::kBF16});
  if (json) {
    const nlohmann::ordered_json document = {
        {"folder", folder},          {"architecture", report.architecture}, {"dtype", dtype},
        {"tensors", report.tensors}, {"parameters", report.parameters},     {"bytes", report.bytes}};
    fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} model, {} parameters in {} tensors, {} in {}\n", folder, report.architecture, report.parameters,
               report.tensors, format_bytes(report.bytes), dtype);
  }
  return 0;
}

}  // namespace spillway

#include "cli/cmd_quantize.h"

#include <array>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "model/quantised/quant_state.h"
#include "model/quantised/quantise_model.h"
#include "report/progress.h"

namespace spillway {
namespace {

// The place of `text` among the names that an option takes.
size_t choose(std::string_view option, std::string_view text, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return i;
  throw input_error(option, "expected {}, got {}; choose one of them", joined_names(names), quote(text));
}

QuantisedFormat format_of(const std::string& type, const std::string& double_quant) {
  constexpr std::array<std::string_view, 2> kBooleans = {"false", "true"};
  QuantisedFormat format{.coding = static_cast<WeightCoding>(choose("--type", type, kWeightCodings))};
  if (double_quant.empty()) return format;
  format.double_quant = choose("--double-quant", double_quant, kBooleans) == 1;
  if (format.coding != WeightCoding::kInt8) return format;
  throw input_error("--double-quant", "expected --type nf4 or fp4 beside it, got int8; remove one of them");
}

std::optional<DType> dtype_of(const std::string& name) {
  constexpr std::array<DType, 3> kDTypes = {DType::kBF16, DType::kF16, DType::kF32};
  if (name.empty()) return {};
  std::array<std::string_view, 3> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = torch_name_of(kDTypes[i]);
  return kDTypes[choose("--dtype", name, names)];
}

}  // namespace

int cmd_quantize(std::span<const std::string> args) {
  std::string model, out, type = "nf4", double_quant, dtype;
  bool json = false;
  CommandLine line("spillway quantize",
                   "Quantises a model's linear layers, as bitsandbytes and transformers save them.");
  line.model(model, "the model's folder");
  line.required("--out FOLDER", out, "the folder to write: new, empty, or one that this command wrote");
  line.option("--type TYPE", type, "nf4, fp4 or int8");
  line.option("--double-quant BOOL", double_quant, "of 4 bits: quantise the scales, too (true by default)");
  line.option("--dtype TYPE", dtype, "convert the weights first: bfloat16, float16 or float32");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway quantize ./model --out ./model-nf4");
  if (!line.parse(args)) return kDone;

  Progress progress({});
  QuantiseOptions options{.format = format_of(type, double_quant), .dtype = dtype_of(dtype)};
  options.progress = [&](int64_t done, int64_t total) {
    progress.load({.what = "weights", .bytes = done, .total_bytes = total}, now_seconds());
  };
  const QuantiseReport report = quantise_model(model, out, options);
  progress.clear();
  if (json) {
    const nlohmann::ordered_json document = {{"out", out},
                                             {"type", type},
                                             {"quantised", report.quantised},
                                             {"bytes_before", report.bytes_before},
                                             {"bytes", report.bytes}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: {} weights in {}, {} instead of {}\n", shown_line(out), report.quantised, type,
               format_bytes(report.bytes), format_bytes(report.bytes_before));
  }
  return kDone;
}

}  // namespace spillway

#include "saved/model_card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/values.h"
#include "config/yaml.h"
#include "io/file.h"
#include "model/layout.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxCardBytes = int64_t{1} << 20;
// A mark that distinguishes our cards from a README of the user's.
constexpr std::string_view kMark = "\n<!-- written by spillway train; without this line it is not written again -->\n";

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

// "owner/name", by the hub's rules for names.
bool is_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == text.size() || text.front() == '.') return false;
  const std::string_view name = text.substr(slash + 1);
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(slash), is_name_character) &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

// Returns the hub's name of a model or data set: from the folder of its cache (`models--OWNER--NAME/snapshots/...`), or
// the path itself if it is such a name and nothing on this machine. Empty if it has none.
std::string hub_id(const std::string& path, std::string_view kind) {
  const std::string prefix = fmt::format("{}--", kind);
  for (const fs::path& part : fs::path(path)) {
    const std::string name = part.string();
    const size_t middle = name.find("--", prefix.size());
    if (name.starts_with(prefix) && middle != std::string::npos)
      return name.substr(prefix.size(), middle - prefix.size()) + "/" + name.substr(middle + 2);
  }
  std::error_code error;
  return is_hub_id(path) && !fs::exists(path, error) ? path : "";
}

std::string base_name(const config::Config& c) {
  const std::string id = hub_id(c.model.base_model, "models");
  return id.empty() ? c.model.base_model : id;
}

bool is_path(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_name_character(c) || c == '/'; });
}

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns YAML for a text: a plain scalar if that reads back as the same text.
std::string yaml_text(const std::string& text) {
  if (!is_path(text) || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return json_string(text);
  const config::YamlNode node = config::parse_yaml(text, "a model card");
  return node.is_null() || config::boolean_of(node) ? json_string(text) : text;
}

// Returns a text as a word of a shell command.
std::string shell_text(const std::string& text) {
  if (is_path(text)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Returns the front matter between --- lines at the top; null if there is none that can be parsed.
config::YamlNode front_matter(const fs::path& readme) {
  std::error_code error;
  if (!fs::is_regular_file(readme, error)) return {};
  try {
    const std::string text = read_file(readme, kMaxCardBytes);
    const size_t end = text.find("\n---", 3);
    if (!text.starts_with("---") || end == std::string::npos) return {};
    return config::parse_yaml(std::string_view(text).substr(3, end - 3), readme.string());
  } catch (const std::runtime_error&) {  // a description of another program is no reason to stop
    return {};
  }
}

std::string front_matter_of(const Job& job, const CardWords& words, bool is_adapter, const std::string& license) {
  const config::Config& c = job.config;
  std::string text = fmt::format("---\nbase_model: {}\nlibrary_name: {}\npipeline_tag: {}\n", yaml_text(base_name(c)),
                                 !words.pipeline.empty() ? "diffusers"
                                 : is_adapter            ? "peft"
                                                         : "transformers",
                                 words.task);
  text += license;
  std::vector<std::string> ids;
  for (const data::DatasetConfig& dataset : c.data.datasets) {
    const std::string id = hub_id(dataset.path, "datasets");
    if (!id.empty() && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  if (!ids.empty()) text += "datasets:\n";
  for (const std::string& id : ids) text += fmt::format("- {}\n", yaml_text(id));
  text += fmt::format("tags:\n- spillway\n- {}\n", yaml_text(words.tag));
  if (is_adapter) text += "- lora\n";
  return text + "---\n";
}

std::string intro(const Job& job, const CardWords& words, bool is_adapter) {
  const config::Config& c = job.config;
  fs::path output = fs::path(c.output.output_dir).lexically_normal();
  if (!output.has_filename()) output = output.parent_path();
  std::string text = fmt::format(
      "\n# {}\n\n{} of `{}`, made by {}{} with Spillway.\n", output.filename().string(),
      is_adapter ? "A LoRA adapter" : "A fine-tuned copy", base_name(c), words.method,
      words.method == "supervised fine-tuning" || words.method == "pretraining" ? "" : fmt::format(" ({})", words.tag));
  std::vector<std::string> data;
  for (const data::DatasetConfig& dataset : c.data.datasets) {
    const std::string id = hub_id(dataset.path, "datasets");
    data.push_back(fmt::format("`{}`", id.empty() ? fs::path(dataset.path).filename().string() : id));
  }
  if (!data.empty()) text += fmt::format("\nData: {}.\n", fmt::join(data, ", "));
  return text;
}

// The usage with diffusers.
std::string use_of_video(const Job& job, const std::string& pipeline) {
  const config::Config& c = job.config;
  const std::string output = json_string(c.output.output_dir);
  const std::string component = component_name(c.model.base_model);
  // The pipeline's folder is the parent of the transformer's.
  const std::string base = json_string(fs::path(base_name(c)).parent_path().string());
  if (job.graph.model.lora)
    return fmt::format(
        "\n## Use\n\n```python\nfrom diffusers import {0}\n\npipe = {0}.from_pretrained({1})\n"
        "pipe.load_lora_weights({2})\n```\n",
        pipeline, base, output);
  return fmt::format(
      "\n## Use\n\n```python\nfrom diffusers import {0}, WanTransformer3DModel\n\n"
      "{1} = WanTransformer3DModel.from_pretrained({2}, subfolder={3})\n"
      "pipe = {0}.from_pretrained({4}, {1}={1})\n```\n",
      pipeline, component, output, json_string(component), base);
}

std::string use(const Job& job, const CardWords& words, bool lora) {
  if (!words.pipeline.empty()) return use_of_video(job, words.pipeline);
  const config::Config& c = job.config;
  const std::string folder = json_string(c.output.output_dir);
  const std::string model_class = fmt::format("Auto{}Model{}", lora ? "Peft" : "", words.model_class);
  std::string text = "\n## Use\n\n```python\n";
  text += fmt::format("from {} import {}\nfrom transformers import AutoTokenizer\n\n", lora ? "peft" : "transformers",
                      model_class);
  // By default PEFT creates a base with two labels.
  const bool is_scorer = lora && words.task == "text-classification";
  text += fmt::format("model = {}.from_pretrained({}{})\ntokenizer = AutoTokenizer.from_pretrained({})\n```\n",
                      model_class, folder, is_scorer ? ", num_labels=1" : "", folder);
  if (words.task != "text-generation") return text;
  const std::string output = shell_text(c.output.output_dir);
  const std::string command = lora
                                  ? fmt::format("spillway chat {} --adapter {}", shell_text(c.model.base_model), output)
                                  : fmt::format("spillway chat {}", output);
  return text + fmt::format("\n```sh\n{}\n```\n", command);
}

std::string shown(const KeptMetric& metric) {
  return metric.is_share ? fmt::format("{:.1f} %", 100 * metric.value) : fmt::format("{:.4g}", metric.value);
}

std::string results(const TrainedFacts& facts) {
  if (facts.steps == 0) return "";
  std::string text = "\n## Training\n\n| | |\n| --- | --- |\n";
  const auto row = [&](std::string_view key, const std::string& value) {
    text += fmt::format("| {} | {} |\n", key, value);
  };
  row("steps", fmt::format("{} of {}", facts.steps, facts.total_steps));
  row("epochs", fmt::format("{:.4g}", facts.epochs));
  row(fmt::format("{} trained on", facts.unit), fmt::format("{}", facts.tokens));
  if (facts.loss) row("loss of the last step", fmt::format("{:.4g}", *facts.loss));
  for (const KeptMetric& metric : facts.evaluation)
    row(fmt::format("eval_{}, after step {}", metric.key, facts.evaluation_step), shown(metric));
  if (facts.best.step > 0)
    row(fmt::format("best eval_{}", facts.metric),
        fmt::format("{:.4g}, after step {}", facts.best.value, facts.best.step));
  if (facts.loaded_step > 0) row("weights", fmt::format("of step {}", facts.loaded_step));
  return text;
}

std::string memory(const Job& job, const TrainedFacts& facts) {
  if (facts.tiers.empty()) return "";
  std::string text = fmt::format("\n## Memory\n\n{}. `plan.json` says where every byte lived.\n\n", job.title);
  text += "| tier | peak as planned | as measured |\n| --- | ---: | ---: |\n";
  for (const TrainedFacts::TierPeak& tier : facts.tiers)
    text += fmt::format("| {} | {} | {} |\n", tier.name, format_bytes(tier.planned_bytes),
                        tier.measured_bytes ? format_bytes(*tier.measured_bytes) : "-");
  return text;
}

std::string settings(const TrainedFacts& facts) {
  if (facts.settings.empty()) return "";
  std::string text = "\n## Settings\n\n| key | value |\n| --- | --- |\n";
  for (const auto& [key, value] : facts.settings) {
    if (!value.empty()) text += fmt::format("| `{}` | {} |\n", key, value);
  }
  return text;
}

}  // namespace

std::string license_lines(const fs::path& base) {
  std::string lines;
  const config::YamlNode front = front_matter(base / "README.md");
  for (const char* key : {"license", "license_name", "license_link"}) {
    const config::YamlNode* value = front.find(key);
    if (value && value->kind == config::YamlNode::Kind::kScalar)
      lines += fmt::format("{}: {}\n", key, yaml_text(value->text));
  }
  return lines;
}

std::string model_card(const Job& job, const TrainedFacts& facts, const std::string& license) {
  const CardWords words = job.kind->card(job);
  const bool is_adapter = job.graph.model.lora && !facts.is_merged;
  return front_matter_of(job, words, is_adapter, license) + intro(job, words, is_adapter) +
         use(job, words, is_adapter) + results(facts) + memory(job, facts) + settings(facts) + std::string(kMark);
}

void write_model_card(const fs::path& file, const Job& job, const TrainedFacts& facts, const std::string& license) {
  std::error_code error;
  if (fs::exists(file, error)) {
    const bool is_small =
        fs::is_regular_file(file, error) && fs::file_size(file, error) <= static_cast<uintmax_t>(kMaxCardBytes);
    if (!is_small || read_file(file, kMaxCardBytes).find(kMark) == std::string::npos) {
      log_info("{} is not a card that a run wrote, and stays as it is", file.string());
      return;
    }
  }
  write_file(file, model_card(job, facts, license));
}

}  // namespace spillway::train

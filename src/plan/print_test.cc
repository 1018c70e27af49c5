#include "plan/print.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "plan/plan_json.h"
#include "plan/shortage.h"
#include "plan/testing/random_program.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// A plan of a small graph within `device` bytes, and what is printed with it.
struct Printed {
  Graph graph = random_graph(5, {.blocks = 4});
  Plan plan;
  PlanContext context;

  explicit Printed(std::optional<int64_t> device) {
    context.title = "model · job";
    context.budget.device = device;
    plan = make_plan(graph, Machine{}, context.budget, {});
    const auto point = [](int64_t bytes, double seconds) {
      FrontierPoint result{.micro_step_seconds = seconds};
      result.bytes[0] = bytes;
      return result;
    };
    context.frontier = {point(8 * kGiB, 1), point(4 * kGiB, 2)};
  }
  [[nodiscard]] std::string text() const { return print_plan(graph, plan, context); }
  [[nodiscard]] bool says(const std::string& words) const { return text().find(words) != std::string::npos; }
};

}  // namespace

TEST_CASE("a plan is printed with its tiers, its choices and its step") {
  const Printed printed(kGiB);
  REQUIRE(printed.plan.fits);
  CHECK(printed.text().starts_with("model · job\n\ntier     budget      peak        at\n"));
  CHECK(printed.says("\ndevice   1.00 GiB    " + format_bytes(printed.plan.peaks[0].bytes)));
  CHECK(printed.says("\ntier      weights  trainable+state  gradients     saved   working\ndevice "));
  CHECK(printed.says("\nlayers   0-3  activations kept\n"));
  CHECK(printed.says("bottleneck compute"));
  CHECK_FALSE(printed.says("does not fit"));
  CHECK_FALSE(printed.says("\nhost "));
}

TEST_CASE("a plan of several micro-batches says their order, on the page and in JSON") {
  Printed printed(kGiB);
  CHECK_FALSE(printed.says("\norder "));
  CHECK(plan_json(printed.graph, printed.plan, printed.context)["micro_batch_order"] == "horizontal");
  printed.context.accumulation = 6;
  printed.context.group = 4;
  CHECK(printed.says("\norder    vertical, 4 micro-batches in a layer before the next\n"));
  const auto json = plan_json(printed.graph, printed.plan, printed.context);
  CHECK(json["micro_batch_order"] == "vertical");
  CHECK(json["micro_batch_group"] == 4);
  CHECK(json["frontier"][0]["micro_batch_order"] == "horizontal");
  CHECK_FALSE(json.contains("other_orders"));
  printed.context.other_orders = {{.group = 1, .fits = true, .step_seconds = 8}, {.group = 2}};
  CHECK(printed.says("before the next;\n         instead horizontal 8.00 s, groups of 2 would not fit\n"));
  const auto others = plan_json(printed.graph, printed.plan, printed.context)["other_orders"];
  CHECK(others[0]["micro_batch_order"] == "horizontal");
  CHECK(others[0]["step_seconds"] == 8);
  CHECK(others[1]["micro_batch_group"] == 2);
  CHECK(others[1]["fits"] == false);
  CHECK(printed.context.step_seconds(printed.plan.simulation) == printed.plan.simulation.step_seconds(2));
}

TEST_CASE("layers that are treated in two ways in turn take a line for each way, others a line for each run") {
  const Graph graph = random_graph(5, {.blocks = 20});
  Choices choices = uniform_choices(graph, ActivationPolicy::kKeep);
  choices.saved[0] = saved_alike(ActivationPolicy::kRecompute);
  for (size_t block = 1; block < 20; block += 3) choices.saved[block] = saved_alike(ActivationPolicy::kHost);
  Machine machine;
  machine.link_bytes_per_second.fill(1e9);
  const std::string text = print_plan(graph, plan_for(graph, machine, choices), {});
  CAPTURE(text);
  CHECK(text.find("\nlayers   0-19  1 of 20: activations recomputed") != std::string::npos);
  CHECK(text.find("\n               7 of 20: activations -> host\n") != std::string::npos);
  CHECK(text.find("\n               12 of 20: activations kept\n") != std::string::npos);
  choices.saved = std::vector<Saved>(20, saved_alike(ActivationPolicy::kKeep));
  choices.saved[3] = saved_alike(ActivationPolicy::kHost);
  const std::string few = print_plan(graph, plan_for(graph, machine, choices), {});
  CAPTURE(few);
  for (const char* row : {"\nlayers   0-2   activations kept\n", "\n         3     activations -> host\n",
                          "\n         4-19  activations kept\n"})
    CHECK(few.find(row) != std::string::npos);
}

TEST_CASE("no line of a plan is longer than a terminal of 80 columns, and words stay whole") {
  Printed printed(kGiB);
  printed.context.title =
      "a-model-with-a-name · LoRA r=16, all linear · 8 x 128 tokens per micro-batch · bf16 · some CPU";
  printed.context.reference = {.text = "the model without the adapter, which is what it was trained from",
                               .copy_bytes = {kGiB, kGiB, kGiB}};
  std::string words;
  std::istringstream lines(printed.text());
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }) <= 80);
    words += line.substr(std::min(line.size(), line.find_first_not_of(' '))) + ' ';
  }
  CHECK(words.starts_with(printed.context.title + ' '));
}

TEST_CASE("layers that are treated alike share a line") {
  Printed printed(kGiB);
  const ValueKind frozen = ValueKind::kFrozenWeight;
  printed.graph.groups = {{frozen, 1}, {frozen, 2}, {frozen}, {frozen, kNone, std::string(kTablePart)}};
  Choices& choices = printed.plan.choices;
  choices.groups = std::vector<Residency>(printed.graph.groups.size());
  choices.saved[0] = saved_alike(ActivationPolicy::kRecompute);
  nth(choices.saved[1], SavedGroup::kProduct) = nth(choices.saved[1], SavedGroup::kElementwise) =
      ActivationPolicy::kHost;
  choices.saved[2] = choices.saved[1];
  move_groups(printed.graph, {.in_block = true}, Tier::kDisk, choices);
  move_groups(printed.graph, {.part = kTablePart}, Tier::kHost, choices);
  CHECK(
      printed.says("\nlayers   0    activations recomputed\n"
                   "         1-2  attention kept, product and elementwise -> host, weights on disk\n"
                   "         3    activations kept\n"
                   "outside  embedding on host, looked up there\n"));
  const GroupPattern others{.in_block = false, .part = ""};
  move_groups(printed.graph, others, Tier::kDisk, choices);
  CHECK(printed.says("outside  embedding on host, looked up there; final norm and head on disk\n"));
  move_groups(printed.graph, others, Tier::kHost, choices);
  CHECK(printed.says("outside  embedding, final norm and head on host\n"));
}

TEST_CASE("the frontier is drawn with the plan in its place, bars as long as the steps") {
  Printed printed(kGiB);
  const double fastest = printed.plan.simulation.step_seconds(1);
  REQUIRE(fastest < 1);
  CHECK(printed.says("without a budget this job would peak at 8.00 GiB and take 1.00 s;\nthe least it can run in is " +
                     format_bytes_up(printed.plan.peaks[0].bytes)));
  CHECK(
      printed.says(fmt::format("device memory\n     8.00 GiB        1.00 s  {:>6.2f}x  ###############\n"
                               "     4.00 GiB        2.00 s  {:>6.2f}x  ##############################\n",
                               1 / fastest, 2 / fastest)));
  CHECK(printed.text().ends_with("  this plan\n"));
  FrontierPoint same{.micro_step_seconds = printed.plan.simulation.step_seconds(1)};
  same.bytes[0] = printed.plan.peaks[0].bytes;
  const std::string before = printed.text();
  printed.context.frontier.push_back(same);
  CHECK(printed.text() == before);
  printed.context.frontier.back() = {.bytes = {1}, .micro_step_seconds = 1, .group = 4};
  CHECK(printed.says("#  vertical 4\n"));
  printed.context.frontier.pop_back();
  printed.context.frontier.pop_back();
  CHECK_FALSE(printed.says("frontier"));
  printed.context.frontier.clear();
  CHECK_FALSE(printed.says("without a budget"));
}

TEST_CASE("where another program of the job needs more than training, its peak is the job's") {
  Printed printed(kGiB);
  CHECK(printed.says("\nthen lives there, in MiB\n"));
  const int64_t peak = printed.plan.peaks[0].bytes;
  printed.context.beside = {{.name = "evaluation", .bytes = {peak - 1}}, {.name = "generation", .bytes = {3 * peak}}};
  CHECK(printed.says(fmt::format("\ndevice   1.00 GiB    {:<11} generation\n", format_bytes(3 * peak))));
  CHECK(printed.says("\nat training's own peak lives, in MiB\n"));
  CHECK(printed.says("without a budget training would peak at 8.00 GiB"));
  CHECK(printed.says("frontier: the fastest step for each amount of device memory that training takes\n"));
  printed.context.beside = {{.name = "evaluation", .bytes = {peak - 1}, .group = 16}};
  CHECK(printed.says("\nbeside   evaluation, 16 micro-batches in a layer: device "));
}

TEST_CASE("a plan that does not fit names one least amount of memory everywhere") {
  Printed printed(100);
  REQUIRE_FALSE(printed.plan.fits);
  printed.context.budget_keys[0] = "gpu_memory_limit";
  printed.context.nearest = {{.text = "gpu_memory_limit: 1MiB", .bytes = {5 * kKiB, 0, 6 * kKiB}, .step_seconds = 2},
                             {.text = "micro_batch_size: 1", .bytes = {7 * kKiB}, .step_seconds = 3}};
  const std::string least = format_bytes_up(printed.plan.peaks[0].bytes);
  CHECK(printed.says("the least it can run in is " + least));
  CHECK(printed.says("This does not fit: " + format_bytes(printed.plan.missing_bytes[0]) + " of device memory"));
  CHECK(
      printed.says("What would fit:\n"
                   "  gpu_memory_limit: 1MiB  2.00 s per step; peaks: device 5.0 KiB, disk 6.0 KiB\n"
                   "  micro_batch_size: 1     3.00 s per step; peaks: device 7.0 KiB\n"));
  CHECK_FALSE(printed.says("this plan"));
  CHECK(shortage_message(printed.plan, printed.context) ==
        fmt::format("[gpu_memory_limit] expected at least {}, the least this job can run in, got 100 B ({} missing); "
                    "set gpu_memory_limit: 1MiB",
                    least, format_bytes_up(printed.plan.missing_bytes[0])));
  printed.context.nearest.clear();
  CHECK(shortage_message(printed.plan, printed.context)
            .ends_with("; raise the budget, or train fewer or shorter rows at a time"));
  printed.context.least = {.text = "micro_batch_size: 1", .bytes = {7 * kKiB, 0, 5 * kKiB}};
  const std::string nothing = "no change was found that fits; the least, device 7.0 KiB, disk 5.0 KiB, is with ";
  CHECK(printed.says("What would fit: " + nothing + "micro_batch_size: 1\n"));
  CHECK(shortage_message(printed.plan, printed.context)
            .ends_with("; " + nothing + "micro_batch_size: 1: take a larger machine, or a smaller model"));
  CHECK(plan_json(printed.graph, printed.plan, printed.context)["least"]["disk_bytes"] == 5 * kKiB);
}

TEST_CASE("as JSON a plan has its frontier and, where it does not fit, what would") {
  Printed printed(100);
  printed.context.accumulation = 3;
  printed.context.nearest = {{.text = "memory.device: 1MiB", .bytes = {5, 0, 6}, .step_seconds = 2}};
  const auto json = plan_json(printed.graph, printed.plan, printed.context);
  CHECK(json["fits"] == false);
  CHECK(json["choices"][0]["optimizer_state"] == json["optimizer_state"]);
  CHECK(json["missing"]["device"] == printed.plan.missing_bytes[0]);
  CHECK(json["frontier"][1]["device_bytes"] == 4 * kGiB);
  CHECK(json["frontier"][1]["step_seconds"] == 6.0);
  CHECK(json["nearest"][0]["change"] == "memory.device: 1MiB");
  CHECK(json["nearest"][0]["step_seconds"] == 2.0);
  CHECK(json["nearest"][0]["disk_bytes"] == 6);
  CHECK_FALSE(json["alive_at_peak"].empty());
}

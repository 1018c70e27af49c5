#include "report/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/random.h"
#include "base/temporary_folder.h"

using namespace spillway;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_steps(MetricsWriter& writer, int64_t from, int64_t to) {
  for (int64_t step = from; step <= to; ++step)
    writer.write({{"step", step}, {"loss", 1.0 / static_cast<double>(step)}});
}

}  // namespace

TEST_CASE("a line is one JSON object in the order that was given") {
  const TemporaryFolder folder;
  MetricsWriter writer(folder.path() / "metrics.jsonl", 0);
  writer.write(
      {{"step", int64_t{3}}, {"epoch", 1.0}, {"loss", 0.1}, {"rewards/chosen", -2.5e-7}, {"grad_norm", std::nan("")}});
  writer.sync();
  CHECK(text_of(folder.path() / "metrics.jsonl") ==
        "{\"step\": 3, \"epoch\": 1.0, \"loss\": 0.1, \"rewards/chosen\": -2.5e-07, \"grad_norm\": null}\n");
}

TEST_CASE("lines of metrics can be gathered in one text") {
  fmt::memory_buffer out;
  const MetricField fields[] = {{"step", int64_t{1}}, {"loss", 2.0}};
  append_metrics_line(fields, out);
  append_metrics_line(fields, out);
  CHECK(fmt::to_string(out) == "{\"step\": 1, \"loss\": 2.0}\n{\"step\": 1, \"loss\": 2.0}\n");
}

TEST_CASE("every finite number reads back exactly") {
  uint64_t bits = 88172645463325252u;
  for (int i = 0; i < 20000; ++i) {
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    fmt::memory_buffer out;
    append_number(value, out);
    CHECK(nlohmann::json::parse(fmt::to_string(out)).get<double>() == value);
  }
}

TEST_CASE("a resumed run keeps the lines up to its step and cuts the rest") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    MetricsWriter writer(path, 0);
    write_steps(writer, 1, 9);
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 10, \"lo";  // killed while it wrote
  {
    MetricsWriter writer(path, 6);
    write_steps(writer, 7, 9);
  }
  const std::string resumed = text_of(path);
  {
    MetricsWriter writer(path, 0);
    write_steps(writer, 1, 9);
  }
  CHECK(resumed == text_of(path));
}

TEST_CASE("a half-written last line is cut even where its step would stay") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  std::ofstream(path) << "{\"step\": 1, \"loss\": 1.0}\n{\"step\": 2, \"loss\": 1.0}";
  { MetricsWriter writer(path, 5); }
  CHECK(text_of(path) == "{\"step\": 1, \"loss\": 1.0}\n");
}

TEST_CASE("metrics refuse a path that is no file, and name a folder that cannot be written") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(MetricsWriter(folder.path(), 0), InputError);
  CHECK_THROWS_AS(MetricsWriter(folder.path() / "none" / "metrics.jsonl", 0), MachineError);
}

TEST_CASE(
    "of the step that a run goes on from the evaluation stays which its checkpoint knows of, and none of the end") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "metrics.jsonl";
  const std::string trained = "{\"step\": 1, \"eval_loss\": 4.0}\n{\"step\": 2, \"loss\": 2.0}\n",
                    evaluated = "{\"step\": 2, \"eval_loss\": 3.0}\n",
                    kept = "{\"step\": 2, \"weights_step\": 1, \"eval_loss\": 4.0}\n";
  for (const bool is_evaluated : {false, true}) {
    CAPTURE(is_evaluated);
    std::ofstream(path) << trained << evaluated << kept;
    { MetricsWriter writer(path, 2, is_evaluated); }
    CHECK(text_of(path) == (is_evaluated ? trained + evaluated : trained));
  }
}

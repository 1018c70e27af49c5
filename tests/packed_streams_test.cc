// Sequences of one stream never see each other: the session's answer about one of them does not depend on the bits of
// the others.
#include <doctest/doctest.h>

#include "data/batch.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Rows of the golden batches, cut to a few tokens each.
std::vector<data::Row> golden_rows(size_t count, size_t tokens) {
  std::vector<data::Row> rows;
  for (const nlohmann::json& step : tiny_batches()["train"]) {
    for (const nlohmann::json& micro_batch : step) {
      for (const nlohmann::json& sequence : micro_batch) {
        data::Row row{.input_ids = sequence["input_ids"], .labels = sequence["input_ids"]};
        if (row.input_ids.size() < tokens || rows.size() == count) continue;
        row.input_ids.resize(tokens);
        row.labels.resize(tokens);
        rows.push_back(std::move(row));
      }
    }
  }
  REQUIRE(rows.size() == count);
  return rows;
}

// The packed line of all rows as a stream.
data::MicroBatch packed(const std::vector<data::Row>& rows) {
  const data::RowTable table(rows);
  const auto plan = plan_epoch(
      table, {.sequence_len = 48, .packing = data::PackingStrategy::kBfd, .order = data::RowOrder::kFile}, 0);
  REQUIRE(plan.lines.size() == 1);
  data::MicroBatch batch;
  fill_micro_batch(batch, table, plan.micro_batch(0));
  return batch;
}

struct Answer {
  double loss = 0, norm = 0;
  bool operator==(const Answer&) const = default;
};

// Loss and gradient of the middle sequence, beside others.
Answer answer(TinyTraining& training, std::vector<data::Row> rows) {
  for (const size_t other : {size_t{0}, size_t{2}})
    rows[other].labels.assign(rows[other].labels.size(), data::kIgnoredLabel);
  const data::MicroBatch batch = packed(rows);
  training.session().begin_step(0, 0);  // a learning rate of 0: weights stay
  Answer result{.loss = training.session().micro_step(infer::batch_of(batch), 1.0f, 0)};
  result.norm = training.session().update();
  return result;
}

}  // namespace

TEST_CASE("a sequence's loss and gradient are the same bits whatever stands beside it in the line") {
  const std::vector<data::Row> rows = golden_rows(3, 7);
  for (const char* model : {"llama32", "qwen3", "nemotron_h", "falcon_h1", "jamba"}) {
    CAPTURE(model);
    TinyTraining training(kGoldenModels / model, {.accumulates = false});
    const Answer before = answer(training, rows);
    CHECK(before.loss > 0);
    CHECK(before.norm > 0);
    std::vector<data::Row> changed = rows;
    for (const size_t other : {size_t{0}, size_t{2}}) {
      for (int32_t& id : changed[other].input_ids) id = (id + 3) % 20;
    }
    CHECK(answer(training, changed) == before);
    changed[1].input_ids[2] ^= 1;
    CHECK(answer(training, changed) != before);
  }
}

TEST_CASE("a packed line has the loss of its sequences one by one") {
  const std::vector<data::Row> rows = golden_rows(4, 9);
  TinyTraining training(kGoldenModels / "llama32", {});
  const auto loss = [&](const std::vector<data::Row>& some) {
    const data::MicroBatch batch = packed(some);
    return training.session().evaluate(infer::batch_of(batch));
  };
  double sum = 0;
  for (const data::Row& row : rows) sum += loss({row});
  CHECK(loss(rows) == doctest::Approx(sum).epsilon(1e-5));
}

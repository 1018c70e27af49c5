#include "runtime/part_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "dist/testing/local_peers.h"

using namespace spillway;

namespace {

constexpr ValueId kPartial = 0, kWhole = 1;

// The values of one rank in memory; one that is broken cannot be read.
class VectorStore final : public ValueStore {
 public:
  explicit VectorStore(const Graph& graph) {
    for (const Value& value : graph.values) contents_.emplace_back(static_cast<size_t>(value.type.shape.elems()), -1.f);
  }
  void read(ValueId id, const Visitor& use) override {
    if (is_broken) throw MachineError("[disk] expected bytes, got none; see to it");
    use(view(id), 0);
  }
  void write(ValueId id, const Visitor& fill) override { fill(view(id), 0); }
  [[nodiscard]] std::unique_ptr<Writer> writer(ValueId id) override {
    class Appender final : public Writer {
     public:
      explicit Appender(float* to) : to_(to) {}
      void append(const void* elements, int64_t count) override {
        to_ = std::copy_n(static_cast<const float*>(elements), count, to_);
      }

     private:
      float* to_;
    };
    return std::make_unique<Appender>(contents_[static_cast<size_t>(id)].data());
  }
  [[nodiscard]] const std::vector<float>& content(ValueId id) const { return contents_[static_cast<size_t>(id)]; }

  bool is_broken = false;

 private:
  TensorView view(ValueId id) {
    std::vector<float>& content = contents_[static_cast<size_t>(id)];
    return {content.data(), DType::kF32, {std::ssize(content)}};
  }

  std::vector<std::vector<float>> contents_;
};

// Two values of 10,000 elements, of one of which each of three ranks has a part.
struct PartJob {
  static constexpr int64_t kElems = 10'000;
  Graph graph;
  std::map<ValueId, Cut> parts = {{kPartial, cut_of(kElems, 3)}};
  PartJob() {
    graph.values.push_back({.name = "partial", .type = {DType::kF32, {4096}}, .split = true});
    graph.values.push_back({.name = "whole", .type = {DType::kF32, {kElems}}});
  }
};

std::vector<float> content_of(ValueStore& store, ValueId id) {
  std::vector<float> result;
  store.read(id, [&](const TensorView& piece, int64_t first) {
    CHECK(first == std::ssize(result));
    result.insert(result.end(), piece.as<float>(), piece.as<float>() + piece.elems());
  });
  return result;
}

}  // namespace

TEST_CASE("a rank keeps its part of what is written, and reads the whole with the others or for one that leads") {
  const PartJob job;
  const std::vector<std::string> errors = run_ranks(3, [&](Peers& peers) {
    VectorStore own(job.graph);
    PartStore store(own, job.graph, job.parts, peers);
    std::vector<float> expected;
    for (const ValueId id : {kPartial, kWhole}) {
      store.write(id, [&](const TensorView& piece, int64_t first) {
        for (int64_t i = 0; i < piece.elems(); ++i) piece.as<float>()[i] = static_cast<float>(first + i);
      });
    }
    for (int64_t i = 0; i < PartJob::kElems; ++i) expected.push_back(static_cast<float>(i));
    const std::vector<float>& part = own.content(kPartial);
    const auto held = std::min<int64_t>(4096, PartJob::kElems - peers.rank() * 4096);
    if (part[0] != static_cast<float>(peers.rank() * 4096) ||
        std::count(part.begin() + held, part.end(), 0.f) != 4096 - held)
      throw std::runtime_error("another part");
    if (content_of(store, kPartial) != expected || content_of(store, kWhole) != expected)
      throw std::runtime_error("another whole");
    if (peers.rank() == 0) {
      store.lead([&] {
        if (content_of(store, kPartial) != expected || content_of(store, kPartial) != expected)
          throw std::runtime_error("another whole for one");
      });
    } else {
      store.follow();
    }
    (void)peers.exchange("all are here");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("a leader that fails lets the others go on, and a part that cannot be read is an error on all ranks") {
  const PartJob job;
  const std::vector<std::string> errors = run_ranks(3, [&](Peers& peers) {
    VectorStore own(job.graph);
    PartStore store(own, job.graph, job.parts, peers);
    const auto lead_or_follow = [&](bool fails) {
      if (peers.rank() > 0) return store.follow();
      store.lead([&] {
        if (fails) throw InputError("disk full");
        (void)content_of(store, kPartial);
      });
    };
    std::string failure;
    try {
      lead_or_follow(true);
    } catch (const InputError& error) {
      failure = error.what();
    }
    if (failure != (peers.rank() == 0 ? "disk full" : "")) throw std::runtime_error("another failure");
    own.is_broken = peers.rank() == 1;
    lead_or_follow(false);
  });
  for (const std::string& error : errors) CHECK(error == "[disk] expected bytes, got none; see to it");
}

#include "tests/support/toy_family.h"

#include <cmath>
#include <functional>
#include <string>

#include "base/random.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/layers.h"
#include "ops/matmul/matmul.h"
#include "tests/support/toy_operations.h"

namespace spillway::testing {
namespace {

void fill_typical(const TensorView& view, const TypicalBatch&) {
  for (int64_t i = 0; i < view.elems(); ++i) view.as<float>()[i] = static_cast<float>(i % 7) / 7;
}

constexpr Column kLatents{"latents", fill_typical}, kText{"text", fill_typical};

class Toy final : public Model {
 public:
  explicit Toy(const ToySizes& sizes) : sizes_(sizes) {}

  [[nodiscard]] ModelGraph build(Builder& builder, const ModelOptions& options) const override {
    builder.add_axis({.name = "tokens", .capacity = options.tokens});
    ModelGraph result;
    ValueId x =
        add_column(builder, kLatents, {DType::kF32, {options.tokens, sizes_.width}, kTokenAxis}, result.columns);
    const ValueId text =
        add_column(builder, kText, {DType::kF32, {sizes_.text_tokens, sizes_.text_width}}, result.columns);
    Layers layers(builder, options);
    result.dropout_seed = layers.declare_dropout();
    for (int64_t i = 0; i < sizes_.blocks; ++i) {
      builder.begin_block(fmt::format("block {}", i));
      x = append_block(layers, fmt::format("blocks.{}.", i), x, text);
      builder.end_block();
    }
    result.hidden = x;
    result.parameters = layers.parameters();
    return result;
  }

  [[nodiscard]] std::optional<DType> dtype() const override { return DType::kF32; }
  [[nodiscard]] std::string config_json(const std::filesystem::path& folder) const override {
    return read_file(folder / "config.json", 1 << 20);
  }

 private:
  [[nodiscard]] ValueId append_block(Layers& layers, const std::string& prefix, ValueId x, ValueId text) const {
    Builder& builder = layers.builder();
    const auto project = [&](const char* name, ValueId from, int64_t in, ValueId residual = kNone) {
      return layers.linear({.module = prefix + name, .in_features = in, .out_features = sizes_.width}, from, residual);
    };
    const ValueId norm_weight = layers.weight(ParameterRole::kNorm, prefix + "norm", {sizes_.width});
    const ValueId norm_bias = layers.weight(ParameterRole::kBias, prefix + "norm", {sizes_.width});
    const ValueId q = project("q", layer_norm(builder, x, norm_weight, norm_bias), sizes_.width);
    const ValueId k = project("k", text, sizes_.text_width), v = project("v", text, sizes_.text_width);
    const double scale = 1 / std::sqrt(static_cast<double>(sizes_.width));
    const ValueId scores = ops::matmul(builder, q, k, {.transpose_b = true, .alpha = scale});
    return project("o", ops::matmul(builder, softmax_rows(builder, scores), v), sizes_.width, x);
  }

  ToySizes sizes_;
};

ValueType like_output(const Graph& graph, const ModelGraph& model) { return graph.value(model.hidden).type; }

class ToyObjective final : public train::Objective {
 public:
  [[nodiscard]] std::string_view name() const override { return "toy"; }
  void fill(std::span<data::MicroBatch>, const data::RowTable&, std::span<const data::Piece>) const override {}
  [[nodiscard]] std::vector<train::LossColumn> columns() const override {
    return {{{"target", fill_typical}, like_output}};
  }
  [[nodiscard]] train::Loss append(Builder& builder, const train::ObjectiveInputs& in, ValueId scale) const override {
    return {squared_error(builder, in.model().hidden, in.column("target"), scale), {}};
  }
  [[nodiscard]] float scale(const train::StepTotals& step) const override {
    return 1.0f / static_cast<float>(step.targets);
  }
  void observe(const train::Observation& seen, train::MetricSums& sums) const override { sums.add("loss", seen.loss); }
};

using Matrix = std::vector<double>;

// x [rows, in] times the transpose of w [out, in].
Matrix product(const Matrix& x, const Matrix& w, size_t in) {
  Matrix result;
  for (size_t row = 0; row < x.size() / in; ++row) {
    for (size_t out = 0; out < w.size() / in; ++out) {
      double sum = 0;
      for (size_t i = 0; i < in; ++i) sum += x[row * in + i] * w[out * in + i];
      result.push_back(sum);
    }
  }
  return result;
}

Matrix normalised(const Matrix& x, const Matrix& w, const Matrix& b) {
  const size_t columns = w.size();
  Matrix result;
  for (size_t at = 0; at < x.size(); at += columns) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < columns; ++c) mean += x[at + c] / static_cast<double>(columns);
    for (size_t c = 0; c < columns; ++c) variance += std::pow(x[at + c] - mean, 2) / static_cast<double>(columns);
    for (size_t c = 0; c < columns; ++c)
      result.push_back((x[at + c] - mean) / std::sqrt(variance + kLayerNormEps) * w[c] + b[c]);
  }
  return result;
}

}  // namespace

ModelPtr make_toy(const ToySizes& sizes) { return std::make_shared<Toy>(sizes); }

train::ObjectivePtr toy_objective() { return std::make_shared<ToyObjective>(); }

void write_toy_folder(const std::filesystem::path& folder, const ToySizes& sizes) {
  write_file(folder / "config.json", "{\"model_type\": \"toy\"}\n");
  std::vector<TensorSpec> specs;
  const ParameterTable parameters = parameters_of(*make_toy(sizes));
  for (const Parameter& p : parameters) specs.push_back({p.name, DType::kF32, p.shape.dims()});
  SafetensorsWriter writer(folder / "model.safetensors", specs);
  RandomStream random(7, 0);
  for (const TensorSpec& spec : specs) {
    std::vector<float> values(static_cast<size_t>(spec.elems()));
    for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
}

double toy_loss(const ToySizes& sizes, const std::vector<std::vector<double>>& weights,
                const std::vector<float>& latents, const std::vector<float>& text, const std::vector<float>& target) {
  const auto width = static_cast<size_t>(sizes.width), text_width = static_cast<size_t>(sizes.text_width),
             seen = static_cast<size_t>(sizes.text_tokens);
  Matrix x(latents.begin(), latents.end());
  const Matrix from(text.begin(), text.end());
  for (size_t block = 0; block < static_cast<size_t>(sizes.blocks); ++block) {
    const auto weight = [&](size_t i) -> const Matrix& { return weights[block * 6 + i]; };
    const Matrix q = product(normalised(x, weight(0), weight(1)), weight(2), width);
    const Matrix k = product(from, weight(3), text_width), v = product(from, weight(4), text_width);
    Matrix attended;
    for (size_t row = 0; row < x.size() / width; ++row) {
      std::vector<double> shares(seen);
      double sum = 0;
      for (size_t s = 0; s < seen; ++s) {
        double dot = 0;
        for (size_t c = 0; c < width; ++c) dot += q[row * width + c] * k[s * width + c];
        sum += shares[s] = std::exp(dot / std::sqrt(static_cast<double>(width)));
      }
      for (size_t c = 0; c < width; ++c) {
        double value = 0;
        for (size_t s = 0; s < seen; ++s) value += shares[s] / sum * v[s * width + c];
        attended.push_back(value);
      }
    }
    const Matrix update = product(attended, weight(5), width);
    for (size_t i = 0; i < x.size(); ++i) x[i] += update[i];
  }
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(x[i] - static_cast<double>(target[i]), 2);
  return sum / static_cast<double>(x.size() / width);
}

}  // namespace spillway::testing

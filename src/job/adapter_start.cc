#include "job/adapter_start.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "io/convert.h"
#include "job/state_tensors.h"
#include "model/decomposition.h"
#include "model/encoded_weight.h"
#include "model/fresh_factors.h"
#include "model/low_rank_product.h"
#include "model/row_squares.h"
#include "model/storages/fp8.h"
#include "model/weights.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::train {
namespace {

constexpr const char* kKey = "peft_init_lora_weights";

class StartLoader {
 public:
  StartLoader(const Job& job, const TrainingGraph& training, const SafetensorsFolder& base, ValueStore& store)
      : job_(job), lora_(*job.graph.model.lora), training_(training), base_(base), store_(store) {}

  void load(const Parameter& weight) {
    auto elements = make_vector<float>(weight.shape.elems());
    StoredWeight(base_, weight).read({elements.data(), DType::kF32, weight.shape}, 0);
    if (!weight.storage->is_coded()) (void)encode_and_decode(weight, elements, pool_);  // as the run's dtype has it
    const LowRankFactors factors =
        lora_.changes_base() ? load_rest(weight, elements) : load_quantised(weight, elements);
    for (const char which : {'A', 'B'}) {
      const std::vector<float>& values = which == 'A' ? factors.a : factors.b;
      write_trained(lora_name(weight.module, which), values);
      if (const Parameter* start = parameters().find(start_name(weight.module, which))) write_value(*start, values);
    }
    if (!lora_.dora) return;
    load_row_squares(*parameters().find(row_squares_name(weight.name)), weight, store_);
    add_low_rank_product(elements, factors, scale_of(weight), weight.shape[0], pool_);
    write_trained(magnitude_name(weight.module), row_norms(weight, elements));
  }

 private:
  [[nodiscard]] const ParameterTable& parameters() const { return training_.model.parameters; }
  [[nodiscard]] double scale_of(const Parameter& weight) const { return lora_.scale_of(weight.module); }

  // Replaces the elements with the rest after the factors' product is subtracted, as training reads it.
  LowRankFactors load_rest(const Parameter& weight, std::vector<float>& elements) {
    LowRankFactors factors = factors_of(weight, elements);
    add_low_rank_product(elements, factors, -scale_of(weight), weight.shape[0], pool_);
    write_parts(weight, encode_and_decode(weight, elements, pool_));
    return factors;
  }

  LowRankFactors factors_of(const Parameter& weight, const std::vector<float>& elements) const {
    const int64_t rows = weight.shape[0], columns = weight.shape[1], r = lora_.rank_of(weight.module);
    if (lora_.start == LoraStart::kOlora) return orthogonal_factors(elements, rows, columns, r);
    if (!lora_.start_iterations) return singular_factors(elements, rows, columns, r, scale_of(weight));
    return randomised_singular_factors(elements, rows, columns, r, scale_of(weight), *lora_.start_iterations,
                                       static_cast<uint64_t>(job_.config.seed), random_stream_of(weight.module));
  }

  // Replaces the elements with the values of their codes. PEFT's factors do not include the scale.
  LowRankFactors load_quantised(const Parameter& weight, std::vector<float>& elements) {
    std::vector<float> loss = elements;
    write_parts(weight, encode_and_decode(weight, elements, pool_));
    for (size_t i = 0; i < loss.size(); ++i) loss[i] -= elements[i];
    return singular_factors(loss, weight.shape[0], weight.shape[1], lora_.rank_of(weight.module), 1);
  }

  void write_parts(const Parameter& weight, const EncodedWeight& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      store_.write(weight.values[i], [&](const TensorView& piece, int64_t first) {
        std::copy_n(parts[i].begin() + first * size_of(piece.dtype), piece.bytes(), piece.as<std::byte>());
      });
    }
  }

  void write_value(const Parameter& p, const std::vector<float>& values) {
    store_.write(p.value(), [&](const TensorView& piece, int64_t first) {
      convert_floats(values.data() + first, DType::kF32, piece.data, piece.dtype, piece.elems());
    });
  }

  void write_trained(const std::string& name, const std::vector<float>& values) {
    const std::span<const TrainedWeight> list = training_.trained_of_model();
    const auto t = std::find_if(list.begin(), list.end(), [&](const TrainedWeight& trained) {
      return training_.parameter_of(trained).name == name;
    });
    write_exact(store_, training_, *t, name, [&](const TensorView& piece, int64_t first) {
      convert_floats(values.data() + first, DType::kF32, piece.data, piece.dtype, piece.elems());
    });
    if (const Parameter* copy = training_.objective.copies.find(name)) write_value(*copy, values);
  }

  static std::vector<float> row_norms(const Parameter& weight, const std::vector<float>& elements) {
    RowSquares sums(weight.shape[0], weight.shape[1]);
    sums.add(elements);
    std::vector<float> norms = sums.result();
    for (float& norm : norms) norm = std::sqrt(norm);
    return norms;
  }

  const Job& job_;
  const LoraOptions& lora_;
  const TrainingGraph& training_;
  const SafetensorsFolder& base_;
  ValueStore& store_;
  ThreadPool pool_{available_cpus()};
};

}  // namespace

void check_adapter_start(const ParameterTable& parameters, const LoraOptions& lora) {
  if (!lora.starts_from_weights()) return;
  for (const Parameter& p : parameters) {
    if (!p.loads_with_adapter) continue;
    if (is_stored_fp8(*p.storage))
      throw input_error(kKey,
                        "expected a start that leaves the base as it is beside weights in {}, got one that is made of "
                        "them; set dequantize: true, or leave the key out",
                        p.storage->name());
    if (lora.start == LoraStart::kPissa && p.storage->is_coded()) {
      throw input_error(kKey, "expected a base that is not quantised beside pissa, as in PEFT, got {}; use loftq",
                        p.storage->name());
    }
    const int64_t most = std::min(p.shape[0], p.shape[1]), r = lora.rank_of(p.module);
    if (r <= most) continue;
    throw input_error("lora_r", "expected at most {}, the rank of {}, got {}; choose a smaller one", most, p.module, r);
  }
}

bool loads_with_weight(const ParameterTable& parameters, const Parameter& trained) {
  if (!trained.is_factor() && trained.role != ParameterRole::kMagnitude) return false;
  const Parameter* weight = parameters.find(trained.module + ".weight");  // null for a tensor of a mixture
  return weight != nullptr && weight->loads_with_adapter;
}

void load_adapter_starts(const Job& job, const TrainingGraph& training, const SafetensorsFolder& base,
                         ValueStore& store) {
  if (!job.graph.model.lora || !job.graph.model.lora->starts_from_weights()) return;
  StartLoader loader(job, training, base, store);
  for (const Parameter& p : training.model.parameters) {
    if (p.loads_with_adapter) loader.load(p);
  }
}

}  // namespace spillway::train

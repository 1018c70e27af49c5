#include "saved/state.h"

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "io/checksum.h"
#include "io/safetensors_writer.h"
#include "job/state_tensors.h"
#include "saved/saved_round.h"

namespace spillway::train {

int64_t state_bytes(const TrainingGraph& training) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : state_tensors(training)) bytes += tensor.type.bytes();
  return bytes;
}

TensorSums save_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                                const Round* round) {
  std::vector<TensorSpec> specs = round ? tensors_of(*round) : std::vector<TensorSpec>();
  const std::vector<StateTensor> tensors = state_tensors(training);
  for (const StateTensor& tensor : tensors) {
    specs.push_back({tensor.name, tensor.type.dtype, tensor.type.shape.dims()});
  }
  SafetensorsWriter writer(file, specs);
  for (const StateTensor& tensor : tensors) read_tensor(store, tensor, appender(writer, tensor.name));
  if (round) append_tensors(*round, writer);
  writer.commit();
  return writer.checksums();
}

InputError damaged_tensor(std::string_view file, std::string_view tensor) {
  return input_error(file, "expected {} as it was written, got other bytes; resume from another checkpoint",
                     quote(tensor));
}

void load_optimizer_state(const std::filesystem::path& path, const TrainingGraph& training, ValueStore& store,
                          const TensorSums* sums) {
  const SafetensorsFile file(path);
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : file.tensors()) {
    if (!is_of_round(tensor.name)) stored[tensor.name] = &tensor;
  }
  const std::vector<StateTensor> tensors = state_tensors(training);
  for (const StateTensor& tensor : tensors) {
    const ValueType& type = tensor.type;
    const auto found = stored.find(tensor.name);
    if (found == stored.end() || found->second->shape != type.shape.dims() || found->second->dtype() != type.dtype) {
      throw input_error(path.string(), "expected {} as {}, got {}; resume with the config that wrote the checkpoint",
                        tensor.name, to_string(type),
                        found == stored.end() ? "nothing" : found->second->dtype_name + found->second->shape_text());
    }
  }
  if (stored.size() != tensors.size()) {
    throw input_error(path.string(), "expected {} tensors, got {}; resume with the config that wrote the checkpoint",
                      tensors.size(), stored.size());
  }
  for (const StateTensor& tensor : tensors) {
    Checksum sum;  // a tensor has the file's dtype in memory, too: what was read is what the file holds
    const auto fill = [&](const TensorView& piece, int64_t first) {
      file.read(*stored[tensor.name], first, piece.elems(), piece.dtype, piece.data);
      sum.add(span_of(piece.as<const std::byte>(), piece.bytes()));
    };
    if (tensor.exact_of) {
      write_exact(store, training, *tensor.exact_of, path.string(), fill);
    } else {
      write_tensor(store, tensor, fill);
    }
    if (!sums) continue;
    const auto expected = sums->find(tensor.name);
    if (expected == sums->end() || expected->second != sum.text()) throw damaged_tensor(path.string(), tensor.name);
  }
}

}  // namespace spillway::train

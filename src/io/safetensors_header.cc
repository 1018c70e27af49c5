// Parses the header of a safetensors file as a stream of JSON events, because a document tree would keep only the last
// of two equal names, and would take many times the header's size in memory.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "io/safetensors.h"

namespace spillway {
namespace {

struct DTypeRow {
  std::string_view name;
  int64_t bits;
  std::optional<DType> dtype;
};
constexpr std::array<DTypeRow, 22> kDTypes = {{{"F32", 32, DType::kF32}, {"BF16", 16, DType::kBF16},
                                               {"F16", 16, DType::kF16}, {"I64", 64, DType::kI64},
                                               {"I32", 32, DType::kI32}, {"U8", 8, DType::kU8},
                                               {"BOOL", 8, {}},          {"I8", 8, DType::kI8},
                                               {"I16", 16, {}},          {"U16", 16, {}},
                                               {"U32", 32, {}},          {"U64", 64, {}},
                                               {"F64", 64, {}},          {"C64", 64, {}},
                                               {"F8_E4M3", 8, {}},       {"F8_E5M2", 8, {}},
                                               {"F8_E8M0", 8, {}},       {"F8_E4M3FNUZ", 8, {}},
                                               {"F8_E5M2FNUZ", 8, {}},   {"F6_E2M3", 6, {}},
                                               {"F6_E3M2", 6, {}},       {"F4", 4, {}}}};

const DTypeRow* find_dtype(std::string_view name) {
  const auto row = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& r) { return r.name == name; });
  return row == kDTypes.end() ? nullptr : &*row;
}

// A tensor as the header states it; -1 marks a part that has not come yet.
struct Stated {
  StoredTensor tensor;
  int64_t begin = -1, end = -1;
  bool has_dtype = false, has_shape = false;
};

class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string_view where) : where_(where) {}

  std::vector<Stated> tensors;
  std::map<std::string, std::string> metadata;

  bool start_object(size_t) override {
    if (state_ == State::kStart) return go(State::kTop);
    if (state_ == State::kTop && name_ == "__metadata__") return go(State::kMetadata);
    if (state_ == State::kTop) {
      tensors.push_back({.tensor = {.name = name_}});
      return go(State::kTensor);
    }
    reject("an object");
  }
  bool key(string_t& text) override {
    if (state_ == State::kTop && text == "__metadata__" && std::exchange(has_metadata_, true)) {
      throw input_error(where_, "expected __metadata__ once, got it twice; save the file again");
    }
    (state_ == State::kTop ? name_ : field_) = text;
    return true;
  }
  bool end_object() override { return go(state_ == State::kTop ? State::kEnd : State::kTop); }

  bool start_array(size_t) override {
    if (state_ != State::kTensor) reject("a list");
    Stated& last = tensors.back();
    if (field_ == "shape" && !std::exchange(last.has_shape, true)) return go(State::kShape);
    if (field_ == "data_offsets" && last.begin < 0) return go(State::kOffsets);
    reject("a list");
  }
  bool end_array() override {
    const Stated& last = tensors.back();
    if (state_ == State::kOffsets && last.end < 0) reject("fewer than two data_offsets");
    return go(State::kTensor);
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<uint64_t>(INT64_MAX)) reject("a number beyond 2^63");
    const auto value = static_cast<int64_t>(number);
    if (state_ == State::kShape) {
      tensors.back().tensor.shape.push_back(value);
    } else if (state_ == State::kOffsets && tensors.back().begin < 0) {
      tensors.back().begin = value;
    } else if (state_ == State::kOffsets && tensors.back().end < 0) {
      tensors.back().end = value;
    } else {
      reject("a number");
    }
    return true;
  }
  bool string(string_t& text) override {
    if (state_ == State::kMetadata) {
      metadata[field_] = text;
    } else if (state_ == State::kTensor && field_ == "dtype" && !std::exchange(tensors.back().has_dtype, true)) {
      tensors.back().tensor.dtype_name = text;
    } else {
      reject("a string");
    }
    return true;
  }

  bool number_integer(number_integer_t) override { reject("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { reject("a number with a fraction"); }
  bool boolean(bool) override { reject("true or false"); }
  bool null() override { reject("null"); }
  bool binary(binary_t&) override { reject("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw input_error(
        where_, "expected a header in JSON, got an error at byte {} of it; download or save the file again", position);
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool go(State next) {
    state_ = next;
    return true;
  }
  [[noreturn]] void reject(std::string_view what) const {
    throw input_error(where_, "expected a header of tensors with dtype, shape and data_offsets, got {} at {} {}; {}",
                      what, quote(name_), quote(field_), "download or save the file again");
  }

  std::string_view where_;
  State state_ = State::kStart;
  std::string name_, field_;
  bool has_metadata_ = false;
};

// Returns shape x size of dtype, or nullopt if that overflows or is not whole bytes.
std::optional<int64_t> byte_count(const StoredTensor& tensor, int64_t bits) {
  int64_t elems = 1;
  for (const int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(elems, dim, &elems)) return {};
  }
  int64_t total_bits = 0;
  if (__builtin_mul_overflow(elems, bits, &total_bits) || total_bits % 8 != 0) return {};
  return total_bits / 8;
}

void check_tensor(const Stated& stated, int64_t data_bytes, std::string_view where) {
  const StoredTensor& tensor = stated.tensor;
  if (!stated.has_dtype || !stated.has_shape || stated.end < 0) {
    throw input_error(where, "expected dtype, shape and data_offsets of tensor {}, got only some; save the file again",
                      quote(tensor.name));
  }
  const DTypeRow* row = find_dtype(tensor.dtype_name);
  if (row == nullptr) {
    throw input_error(where, "expected a dtype that safetensors defines for tensor {}, got {}; save it as BF16 or F32",
                      quote(tensor.name), quote(tensor.dtype_name));
  }
  if (stated.begin > stated.end || stated.end > data_bytes) {
    throw input_error(where, "expected tensor {} within the {} bytes of data, got bytes {} to {}; {}",
                      quote(tensor.name), data_bytes, stated.begin, stated.end,
                      "the file is cut short or broken: download it again, or of a checkpoint take another");
  }
  const auto bytes = byte_count(tensor, row->bits);
  if (!bytes || *bytes != stated.end - stated.begin) {
    throw input_error(where,
                      "expected the {} bytes of tensor {} to hold {} {}, got a size that differs; save the file again",
                      stated.end - stated.begin, quote(tensor.name), tensor.shape_text(), tensor.dtype_name);
  }
}

// Checks that by offset, the tensors follow each other without gap or overlap, up to the end of the file.
void check_layout(const std::vector<Stated>& sorted, int64_t data_bytes, std::string_view where) {
  int64_t end = 0;
  for (const Stated& stated : sorted) {
    if (stated.begin != end) {
      throw input_error(where, "expected tensor {} at byte {} of the data, got {} ({}); save the file again",
                        quote(stated.tensor.name), end, stated.begin, stated.begin < end ? "an overlap" : "a gap");
    }
    end = stated.end;
  }
  if (end != data_bytes) {
    throw input_error(
        where,
        "expected {} bytes of data, got {}; the file is cut short or has bytes too many: download it again, or of a "
        "checkpoint take another",
        end, data_bytes);
  }
  std::set<std::string_view> names;
  for (const Stated& stated : sorted) {
    if (!names.insert(stated.tensor.name).second) {
      throw input_error(where, "expected each tensor once, got two of the name {}; save the file again",
                        quote(stated.tensor.name));
    }
  }
}

}  // namespace

std::optional<DType> StoredTensor::dtype() const {
  const DTypeRow* row = find_dtype(dtype_name);
  return row == nullptr ? std::nullopt : row->dtype;
}

int64_t StoredTensor::elems() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

std::string StoredTensor::shape_text() const {
  constexpr size_t kMaxDims = 8;
  const bool cut = shape.size() > kMaxDims;
  return fmt::format(
      "[{}{}]", fmt::join(shape.begin(), shape.begin() + static_cast<long>(std::min(shape.size(), kMaxDims)), ", "),
      cut ? ", ..." : "");
}

SafetensorsHeader parse_safetensors_header(std::string_view header, int64_t data_bytes, std::string_view where) {
  HeaderHandler handler(where);
  nlohmann::json::sax_parse(header.begin(), header.end(), &handler);

  std::vector<Stated>& stated = handler.tensors;
  for (const Stated& s : stated) check_tensor(s, data_bytes, where);
  // An empty tensor may share its offset with the tensor that follows.
  std::stable_sort(stated.begin(), stated.end(), [](const Stated& a, const Stated& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(stated, data_bytes, where);

  SafetensorsHeader result;
  result.metadata = std::move(handler.metadata);
  result.tensors.reserve(stated.size());
  for (Stated& s : stated) {
    s.tensor.offset = 8 + static_cast<int64_t>(header.size()) + s.begin;
    s.tensor.bytes = s.end - s.begin;
    result.tensors.push_back(std::move(s.tensor));
  }
  return result;
}

}  // namespace spillway

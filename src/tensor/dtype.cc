#include "tensor/dtype.h"

#include "base/error.h"

namespace spillway {

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kU8:
    case DType::kI8:
      return 1;
  }
  report_bug(__FILE__, __LINE__, "dtype", "unknown");
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
    case DType::kI8:
      return "i8";
  }
  report_bug(__FILE__, __LINE__, "dtype", "unknown");
}

}  // namespace spillway

#include "backend/cuda/product.h"

#include "backend/cuda/context.h"

namespace spillway::cuda {

void multiply(const Product& product, const KernelArgs& args) {
  args.context->cublas().multiply(product, static_cast<cudaStream_t>(args.stream));
}

}  // namespace spillway::cuda

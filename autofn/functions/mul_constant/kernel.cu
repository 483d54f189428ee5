// A product with a constant on CUDA: one functor. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"

namespace autofn::mul_constant_cuda {

template <typename W>
struct Product {
  W constant;
  __device__ W operator()(W x) const { return x * constant; }
};

template <typename T>
void product(T* y, const T* x, double constant, int64_t n, cudaStream_t stream) {
  map(y, n, Product<Wide<T>>{static_cast<Wide<T>>(constant)}, stream, x);
}

#define LAUNCHERS(T) template void product<T>(T*, const T*, double, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::mul_constant_cuda

// Straight-through rounding on CUDA: one functor. A launcher only, no torch header; kernel_cuda.cpp calls it.
#include "../../csrc/elementwise.cuh"

namespace autofn::round_ste_cuda {

struct Forward {
  // Halves to even, as the hardware's default.
  template <typename W>
  __device__ W operator()(W x) const {
    return ::rint(x);
  }
};

template <typename T>
void forward(T* y, const T* x, int64_t n, cudaStream_t stream) {
  map(y, n, Forward{}, stream, x);
}

#define LAUNCHER(T) template void forward<T>(T*, const T*, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHER)

}  // namespace autofn::round_ste_cuda

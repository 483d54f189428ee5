// The cube on CUDA: one functor a pass. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"

namespace autofn::cube_cuda {

struct Forward {
  template <typename W>
  __device__ W operator()(W x) const {
    return x * x * x;
  }
};

struct Backward {
  template <typename W>
  __device__ W operator()(W grad_output, W x) const {
    return grad_output * x * (3 * x);
  }
};

template <typename T>
void forward(T* y, const T* x, int64_t n, cudaStream_t stream) {
  map(y, n, Forward{}, stream, x);
}

template <typename T>
void backward(T* grad_x, const T* grad_output, const T* x, int64_t n, cudaStream_t stream) {
  map(grad_x, n, Backward{}, stream, grad_output, x);
}

#define LAUNCHERS(T)                                             \
  template void forward<T>(T*, const T*, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::cube_cuda

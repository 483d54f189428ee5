// The hyperbolic sine on CUDA: one functor a pass. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"

namespace autofn::sinh_cuda {

struct Forward {
  template <typename W>
  __device__ W operator()(W x) const {
    return ::sinh(x);
  }
};

struct Backward {
  template <typename W>
  __device__ W operator()(W grad_output, W y) const {
    // cosh(x) of y = sinh(x).
    return grad_output * ::hypot(W(1), y);
  }
};

template <typename T>
void forward(T* y, const T* x, int64_t n, cudaStream_t stream) {
  map(y, n, Forward{}, stream, x);
}

template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, int64_t n, cudaStream_t stream) {
  map(grad_x, n, Backward{}, stream, grad_output, y);
}

#define LAUNCHERS(T)                                             \
  template void forward<T>(T*, const T*, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::sinh_cuda

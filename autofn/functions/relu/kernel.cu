// The rectified linear unit on CUDA: one functor a pass. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"

namespace autofn::relu_cuda {

struct Forward {
  template <typename W>
  __device__ W operator()(W x) const {
    // Both comparisons are false for NaN: it stays, and lets grad_output through.
    return x <= 0 ? W(0) : x;
  }
};

struct Backward {
  template <typename W>
  __device__ W operator()(W grad_output, W y) const {
    return y <= 0 ? W(0) : grad_output;
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

}  // namespace autofn::relu_cuda

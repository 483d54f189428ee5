// The exponential on CUDA: one thread an element. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/device.cuh"

namespace autofn::exp_cuda {

template <typename T>
__global__ void forward_kernel(T* y, const T* x, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_stride()) y[i] = narrow<T>(::exp(widen(x[i])));
}

template <typename T>
__global__ void backward_kernel(T* grad_x, const T* grad_output, const T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_stride())
    grad_x[i] = narrow<T>(widen(grad_output[i]) * widen(y[i]));
}

template <typename T>
void forward(T* y, const T* x, int64_t n, cudaStream_t stream) {
  if (n > 0) forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(y, x, n);
}

template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, int64_t n, cudaStream_t stream) {
  if (n > 0) backward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(grad_x, grad_output, y, n);
}

#define LAUNCHERS(T)                                             \
  template void forward<T>(T*, const T*, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::exp_cuda

// Clipped ReLU on CUDA: one thread an element. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/device.cuh"

namespace autofn::clipped_relu_cuda {

template <typename T>
__global__ void forward_kernel(T* y, const T* x, Wide<T> clip, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_stride()) {
    const Wide<T> v = widen(x[i]);
    // Comparisons that are false for NaN, so that NaN stays.
    y[i] = v < 0 ? narrow<T>(0) : v > clip ? narrow<T>(clip) : x[i];
  }
}

template <typename T>
__global__ void backward_kernel(T* grad_x, const T* grad_output, const T* y, Wide<T> clip, int64_t n) {
  // y was clipped in its own dtype, so the corner is the clip rounded to it.
  const Wide<T> high = widen(narrow<T>(clip));
  for (int64_t i = first_index(); i < n; i += index_stride()) {
    const Wide<T> v = widen(y[i]);
    grad_x[i] = v > 0 && v < high ? grad_output[i] : narrow<T>(0);
  }
}

template <typename T>
void forward(T* y, const T* x, double clip, int64_t n, cudaStream_t stream) {
  if (n > 0) forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(y, x, static_cast<Wide<T>>(clip), n);
}

template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, double clip, int64_t n, cudaStream_t stream) {
  if (n > 0)
    backward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(grad_x, grad_output, y, static_cast<Wide<T>>(clip), n);
}

#define LAUNCHERS(T)                                                     \
  template void forward<T>(T*, const T*, double, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, double, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::clipped_relu_cuda

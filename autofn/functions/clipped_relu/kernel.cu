// Clipped ReLU on CUDA: one functor a pass. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"

namespace autofn::clipped_relu_cuda {

template <typename W>
struct Forward {
  W clip;
  // Comparisons that are false for NaN, so that NaN stays.
  __device__ W operator()(W x) const { return x < 0 ? 0 : x > clip ? clip : x; }
};

template <typename W>
struct Backward {
  W clip;
  __device__ W operator()(W grad_output, W y) const { return y > 0 && y < clip ? grad_output : 0; }
};

template <typename T>
void forward(T* y, const T* x, double clip, int64_t n, cudaStream_t stream) {
  map(y, n, Forward<Wide<T>>{static_cast<Wide<T>>(clip)}, stream, x);
}

// clip: as y holds it, rounded to T.
template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, double clip, int64_t n, cudaStream_t stream) {
  map(grad_x, n, Backward<Wide<T>>{static_cast<Wide<T>>(clip)}, stream, grad_output, y);
}

#define LAUNCHERS(T)                                                     \
  template void forward<T>(T*, const T*, double, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, double, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::clipped_relu_cuda

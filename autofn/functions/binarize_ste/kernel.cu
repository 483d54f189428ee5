// Straight-through binarisation on CUDA. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"
#include "../../csrc/rows.cuh"

namespace autofn::binarize_ste_cuda {

struct Sign {
  // Comparisons that are false for NaN, so that NaN stays.
  template <typename W>
  __device__ W operator()(W x) const {
    return x >= 0 ? 1 : x < 0 ? -1 : x;
  }
};

// A warp writes the word of its 32 elements. All of its lanes must vote: it stops where its first one is past the end.
template <typename T>
__global__ void windowed_forward_kernel(T* y, uint32_t* words, const T* x, int64_t n) {
  for (int64_t i = first_index(); i - threadIdx.x % kWarp < n; i += index_stride()) {
    const Wide<T> value = i < n ? widen(x[i]) : 0;
    const uint32_t word = __ballot_sync(kFullMask, ::fabs(value) <= 1);
    if (threadIdx.x % kWarp == 0) words[i / kWarp] = word;
    if (i < n) y[i] = narrow<T>(Sign()(value));
  }
}

template <typename T>
__global__ void windowed_backward_kernel(T* grad_x, const T* grad_output, const uint32_t* words, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_stride())
    grad_x[i] = words[i / kWarp] >> (i % kWarp) & 1 ? grad_output[i] : narrow<T>(0);
}

template <typename T>
void sign(T* y, const T* x, int64_t n, cudaStream_t stream) {
  map(y, n, Sign{}, stream, x);
}

template <typename T>
void windowed_forward(T* y, uint32_t* words, const T* x, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  windowed_forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(y, words, x, n);
}

template <typename T>
void windowed_backward(T* grad_x, const T* grad_output, const uint32_t* words, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  windowed_backward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(grad_x, grad_output, words, n);
}

#define LAUNCHERS(T)                                                                 \
  template void sign<T>(T*, const T*, int64_t, cudaStream_t);                        \
  template void windowed_forward<T>(T*, uint32_t*, const T*, int64_t, cudaStream_t); \
  template void windowed_backward<T>(T*, const T*, const uint32_t*, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::binarize_ste_cuda

// Dropout on CUDA: one element a thread. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/device.cuh"
#include "hash.h"

namespace autofn::dropout_cuda {

using dropout::Draw;

constexpr int64_t kBits = 8;

template <typename T>
__global__ void forward_kernel(T* y, const T* x, Draw draw, Wide<T> scale, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_stride())
    y[i] = narrow<T>(draw.keeps(static_cast<uint32_t>(i)) ? widen(x[i]) * scale : 0);
}

// Whole warps take part in the vote, so that each knows the bits of 32 elements, the first of them a multiple of 32.
template <typename T>
__global__ void forward_mask_kernel(T* y, uint8_t* mask, const T* x, Draw draw, Wide<T> scale, int64_t n) {
  for (int64_t first = blockIdx.x * static_cast<int64_t>(kThreads); first < n; first += index_stride()) {
    const int64_t i = first + threadIdx.x;
    const bool keep = i < n && draw.keeps(static_cast<uint32_t>(i));
    const unsigned bits = __ballot_sync(0xffffffffu, keep);
    if (i >= n) continue;
    y[i] = narrow<T>(keep ? widen(x[i]) * scale : 0);
    if (i % kBits == 0) mask[i / kBits] = static_cast<uint8_t>(bits >> (threadIdx.x % 32));
  }
}

template <typename T>
__global__ void backward_mask_kernel(T* grad_x, const T* grad_output, const uint8_t* mask, Wide<T> scale, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_stride())
    grad_x[i] = narrow<T>(mask[i / kBits] >> (i % kBits) & 1 ? widen(grad_output[i]) * scale : 0);
}

template <typename T>
void forward(T* y, const T* x, double p, int64_t seed, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(
      y, x, Draw(p, seed), static_cast<Wide<T>>(dropout::scale(p)), n);
}

template <typename T>
void forward_mask(T* y, uint8_t* mask, const T* x, double p, int64_t seed, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  forward_mask_kernel<<<blocks_for(n), kThreads, 0, stream>>>(
      y, mask, x, Draw(p, seed), static_cast<Wide<T>>(dropout::scale(p)), n);
}

template <typename T>
void backward_mask(T* grad_x, const T* grad_output, const uint8_t* mask, double p, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  backward_mask_kernel<<<blocks_for(n), kThreads, 0, stream>>>(
      grad_x, grad_output, mask, static_cast<Wide<T>>(dropout::scale(p)), n);
}

#define LAUNCHERS(T)                                                                             \
  template void forward<T>(T*, const T*, double, int64_t, int64_t, cudaStream_t);                \
  template void forward_mask<T>(T*, uint8_t*, const T*, double, int64_t, int64_t, cudaStream_t); \
  template void backward_mask<T>(T*, const T*, const uint8_t*, double, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::dropout_cuda

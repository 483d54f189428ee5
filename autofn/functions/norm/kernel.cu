// The Euclidean norm on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"
#include "squares.h"

namespace autofn::norm_cuda {

// The norm of a row whose squares overflow or underflow; every thread of the block has the same.
template <typename W, typename T>
__device__ W scaled_norm(const T* x, int64_t features) {
  const W largest = row_max<W>(features, [&](int64_t i) { return ::fabs(widen(x[i])); });
  // Also where there is none and the largest is -infinity.
  if (largest <= 0) return 0;
  if (isinf(largest)) return largest;
  return largest * ::sqrt(row_sum<W>(features, [&](int64_t i) {
           const W v = widen(x[i]) / largest;
           return v * v;
         }));
}

template <typename T>
__global__ void forward_kernel(T* y, const T* x, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * features;
    const W squares = row_sum<W>(features, [&](int64_t i) { return widen(from[i]) * widen(from[i]); });
    const bool whole = squares >= norm::kLeastSquares<W> && isfinite(squares);
    const W found = whole ? ::sqrt(squares) : scaled_norm<W>(from, features);
    if (threadIdx.x == 0) y[row] = narrow<T>(found);
  }
}

template <typename T>
__global__ void backward_kernel(
    T* grad_x, const T* grad_output, const T* x, const T* y, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const W factor = widen(grad_output[row]), found = widen(y[row]);
    // Not x times an inverse, which overflows where y is denormal; in a row of 0 the divisor does not matter.
    const W length = found == 0 ? 1 : found;
    for (int64_t i = row * features + threadIdx.x; i < (row + 1) * features; i += kThreads)
      grad_x[i] = narrow<T>(factor * (widen(x[i]) / length));
  }
}

template <typename T>
void forward(T* y, const T* x, int64_t rows, int64_t features, cudaStream_t stream) {
  if (rows == 0) return;
  forward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(y, x, rows, features);
}

template <typename T>
void backward(
    T* grad_x, const T* grad_output, const T* x, const T* y, int64_t rows, int64_t features, cudaStream_t stream) {
  if (rows * features == 0) return;
  backward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(grad_x, grad_output, x, y, rows, features);
}

#define LAUNCHERS(T)                                                      \
  template void forward<T>(T*, const T*, int64_t, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, const T*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::norm_cuda

// The logarithm of summed exponentials on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls
// them.
#include "../../csrc/rows.cuh"

namespace autofn::logsumexp_cuda {

template <typename T>
__device__ Wide<T> largest_of(const T* x, int64_t features) {
  return row_max<Wide<T>>(features, [&](int64_t i) { return widen(x[i]); });
}

// inverse: one over the sum of a row, or 1 where its largest is infinite.
template <typename T>
__global__ void forward_kernel(T* y, Wide<T>* inverse, const T* x, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * features;
    const W largest = largest_of(from, features);
    // All threads have the same largest, so that none waits for another in the sum.
    const bool infinite = isinf(largest);
    const W sum = infinite ? 1 : row_sum<W>(features, [&](int64_t i) { return ::exp(widen(from[i]) - largest); });
    if (threadIdx.x == 0) {
      y[row] = narrow<T>(infinite ? largest : largest + ::log(sum));
      inverse[row] = 1 / sum;
    }
  }
}

template <typename T>
__global__ void backward_kernel(
    T* grad_x, const T* grad_output, const T* x, const Wide<T>* inverse, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const W factor = widen(grad_output[row]) * inverse[row], largest = largest_of(x + row * features, features);
    const W shift = largest == -static_cast<W>(INFINITY) ? 0 : largest;
    for (int64_t i = row * features + threadIdx.x; i < (row + 1) * features; i += kThreads)
      grad_x[i] = narrow<T>(factor * ::exp(widen(x[i]) - shift));
  }
}

template <typename T>
void forward(T* y, Wide<T>* inverse, const T* x, int64_t rows, int64_t features, cudaStream_t stream) {
  if (rows == 0) return;
  forward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(y, inverse, x, rows, features);
}

template <typename T>
void backward(
    T* grad_x,
    const T* grad_output,
    const T* x,
    const Wide<T>* inverse,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  if (rows * features == 0) return;
  backward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(grad_x, grad_output, x, inverse, rows, features);
}

#define LAUNCHERS(T)                                                                \
  template void forward<T>(T*, Wide<T>*, const T*, int64_t, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, const Wide<T>*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::logsumexp_cuda

// The logarithm of summed exponentials on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls
// them.
#include "../../csrc/rows.cuh"

namespace autofn::logsumexp_cuda {

template <typename T>
__global__ void forward_kernel(T* y, const T* x, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * features;
    const W largest = row_max<W>(features, [&](int64_t i) { return widen(from[i]); });
    // All threads have the same largest, so that none waits for another in the sum.
    const W found = isinf(largest) ? largest : largest + ::log(row_sum<W>(features, [&](int64_t i) {
                                                 return ::exp(widen(from[i]) - largest);
                                               }));
    if (threadIdx.x == 0) y[row] = narrow<T>(found);
  }
}

template <typename T>
__global__ void backward_kernel(
    T* grad_x, const T* grad_output, const T* x, const T* y, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const W factor = widen(grad_output[row]), sum = widen(y[row]);
    const W shift = sum == -static_cast<W>(INFINITY) ? 0 : sum;
    for (int64_t i = row * features + threadIdx.x; i < (row + 1) * features; i += kThreads)
      grad_x[i] = narrow<T>(factor * ::exp(widen(x[i]) - shift));
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

}  // namespace autofn::logsumexp_cuda

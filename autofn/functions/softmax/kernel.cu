// Softmax on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"

namespace autofn::softmax_cuda {

template <typename T>
__global__ void forward_kernel(T* y, const T* x, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * features;
    const W largest = row_max<W>(features, [&](int64_t i) { return widen(from[i]); });
    const W shift = largest == -static_cast<W>(INFINITY) ? 0 : largest;
    const W sum = row_sum<W>(features, [&](int64_t i) { return ::exp(widen(from[i]) - shift); });
    // The sum is at least 1, but for a masked row.
    const W factor = sum == 0 ? 0 : 1 / sum;
    for (int64_t i = threadIdx.x; i < features; i += kThreads)
      y[row * features + i] = narrow<T>(::exp(widen(from[i]) - shift) * factor);
  }
}

template <typename T>
__global__ void backward_kernel(T* grad_x, const T* grad_output, const T* y, int64_t rows, int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t first = row * features;
    const W dot = row_sum<W>(features, [&](int64_t i) { return widen(grad_output[first + i]) * widen(y[first + i]); });
    for (int64_t i = threadIdx.x; i < features; i += kThreads)
      grad_x[first + i] = narrow<T>(widen(y[first + i]) * (widen(grad_output[first + i]) - dot));
  }
}

template <typename T>
void forward(T* y, const T* x, int64_t rows, int64_t features, cudaStream_t stream) {
  if (rows * features == 0) return;
  forward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(y, x, rows, features);
}

template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, int64_t rows, int64_t features, cudaStream_t stream) {
  if (rows * features == 0) return;
  backward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(grad_x, grad_output, y, rows, features);
}

#define LAUNCHERS(T)                                                      \
  template void forward<T>(T*, const T*, int64_t, int64_t, cudaStream_t); \
  template void backward<T>(T*, const T*, const T*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::softmax_cuda

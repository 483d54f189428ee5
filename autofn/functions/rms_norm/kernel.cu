// Root-mean-square normalisation on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"

namespace autofn::rms_norm_cuda {

template <typename T>
__global__ void forward_kernel(
    T* y, Wide<T>* inverse_rms, const T* x, const T* weight, Wide<T> eps, int64_t rows, int64_t features) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * features;
    Wide<T> squares = 0;
    for (int64_t i = threadIdx.x; i < features; i += kThreads) squares += widen(from[i]) * widen(from[i]);
    const Wide<T> r = 1 / ::sqrt(block_sum(squares) / features + eps);
    for (int64_t i = threadIdx.x; i < features; i += kThreads)
      y[row * features + i] = narrow<T>(widen(from[i]) * r * widen(weight[i]));
    if (threadIdx.x == 0) inverse_rms[row] = r;
  }
}

// grad_x = r * (s - x * r^2 * mean(s * x)) with s = grad_output * weight.
template <typename T>
__global__ void grad_x_kernel(
    T* grad_x,
    const T* grad_output,
    const T* x,
    const T* weight,
    const Wide<T>* inverse_rms,
    int64_t rows,
    int64_t features) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t first = row * features;
    Wide<T> dot = 0;
    for (int64_t i = threadIdx.x; i < features; i += kThreads)
      dot += widen(grad_output[first + i]) * widen(weight[i]) * widen(x[first + i]);
    const Wide<T> r = inverse_rms[row];
    const Wide<T> along_x = r * r * r * (block_sum(dot) / features);
    for (int64_t i = threadIdx.x; i < features; i += kThreads) {
      const Wide<T> scaled = widen(grad_output[first + i]) * widen(weight[i]);
      grad_x[first + i] = narrow<T>(r * scaled - along_x * widen(x[first + i]));
    }
  }
}

template <typename T>
struct WeightTerm {
  const T* grad_output;
  const T* x;
  const Wide<T>* inverse_rms;
  int64_t features;
  __device__ Wide<T> operator()(int64_t row, int64_t column) const {
    const int64_t i = row * features + column;
    return widen(grad_output[i]) * widen(x[i]) * inverse_rms[row];
  }
};

template <typename T>
void forward(
    T* y,
    Wide<T>* inverse_rms,
    const T* x,
    const T* weight,
    double eps,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  if (rows * features == 0) return;
  forward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(
      y, inverse_rms, x, weight, static_cast<Wide<T>>(eps), rows, features);
}

template <typename T>
void grad_x(
    T* out,
    const T* grad_output,
    const T* x,
    const T* weight,
    const Wide<T>* inverse_rms,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  if (rows * features == 0) return;
  grad_x_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(
      out, grad_output, x, weight, inverse_rms, rows, features);
}

// partial: row_blocks(rows) * features numbers.
template <typename T>
void grad_weight(
    T* out,
    Wide<T>* partial,
    const T* grad_output,
    const T* x,
    const Wide<T>* inverse_rms,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  column_sum(out, partial, rows, features, WeightTerm<T>{grad_output, x, inverse_rms, features}, stream);
}

#define LAUNCHERS(T)                                                                                         \
  template void forward<T>(T*, Wide<T>*, const T*, const T*, double, int64_t, int64_t, cudaStream_t);        \
  template void grad_x<T>(T*, const T*, const T*, const T*, const Wide<T>*, int64_t, int64_t, cudaStream_t); \
  template void grad_weight<T>(T*, Wide<T>*, const T*, const T*, const Wide<T>*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::rms_norm_cuda

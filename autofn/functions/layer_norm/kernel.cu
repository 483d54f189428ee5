// Layer normalisation on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"

namespace autofn::layer_norm_cuda {

template <typename T>
__global__ void forward_kernel(
    T* y,
    Wide<T>* means,
    Wide<T>* inverses,
    const T* x,
    const T* weight,
    const T* bias,
    Wide<T> eps,
    int64_t rows,
    int64_t features) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * features;
    const W mean = row_sum<W>(features, [&](int64_t i) { return widen(from[i]); }) / features;
    const W squares = row_sum<W>(features, [&](int64_t i) {
      const W centred = widen(from[i]) - mean;
      return centred * centred;
    });
    const W r = 1 / ::sqrt(squares / features + eps);
    for (int64_t i = threadIdx.x; i < features; i += kThreads)
      y[row * features + i] = narrow<T>((widen(from[i]) - mean) * r * widen(weight[i]) + widen(bias[i]));
    if (threadIdx.x == 0) {
      means[row] = mean;
      inverses[row] = r;
    }
  }
}

// What the backward reads; z = (x - mean) * inverse.
template <typename T>
struct Saved {
  const T* grad_output;
  const T* x;
  const Wide<T>* means;
  const Wide<T>* inverses;
  int64_t features;
  __device__ Wide<T> grad(int64_t row, int64_t column) const { return widen(grad_output[row * features + column]); }
  __device__ Wide<T> z(int64_t row, int64_t column) const {
    return (widen(x[row * features + column]) - means[row]) * inverses[row];
  }
};

// grad_x = r * (s - mean(s) - z * mean(s * z)) with s = grad_output * weight.
template <typename T>
__global__ void grad_x_kernel(T* grad_x, Saved<T> saved, const T* weight, int64_t rows) {
  using W = Wide<T>;
  const int64_t features = saved.features;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto scaled = [&](int64_t i) { return saved.grad(row, i) * widen(weight[i]); };
    const W mean = row_sum<W>(features, scaled) / features;
    const W along_z = row_sum<W>(features, [&](int64_t i) { return scaled(i) * saved.z(row, i); }) / features;
    for (int64_t i = threadIdx.x; i < features; i += kThreads) {
      grad_x[row * features + i] = narrow<T>(saved.inverses[row] * (scaled(i) - mean - saved.z(row, i) * along_z));
    }
  }
}

template <typename T>
struct WeightTerm {
  Saved<T> saved;
  __device__ Wide<T> operator()(int64_t row, int64_t column) const {
    return saved.grad(row, column) * saved.z(row, column);
  }
};

template <typename T>
struct BiasTerm {
  const T* grad_output;
  int64_t features;
  __device__ Wide<T> operator()(int64_t row, int64_t column) const {
    return widen(grad_output[row * features + column]);
  }
};

template <typename T>
void forward(
    T* y,
    Wide<T>* means,
    Wide<T>* inverses,
    const T* x,
    const T* weight,
    const T* bias,
    double eps,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  if (rows * features == 0) return;
  forward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(
      y, means, inverses, x, weight, bias, static_cast<Wide<T>>(eps), rows, features);
}

template <typename T>
void grad_x(
    T* out,
    const T* grad_output,
    const T* x,
    const T* weight,
    const Wide<T>* means,
    const Wide<T>* inverses,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  if (rows * features == 0) return;
  grad_x_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(
      out, Saved<T>{grad_output, x, means, inverses, features}, weight, rows);
}

// partial: row_blocks(rows) * features numbers, here and below.
template <typename T>
void grad_weight(
    T* out,
    Wide<T>* partial,
    const T* grad_output,
    const T* x,
    const Wide<T>* means,
    const Wide<T>* inverses,
    int64_t rows,
    int64_t features,
    cudaStream_t stream) {
  const WeightTerm<T> term{{grad_output, x, means, inverses, features}};
  column_sum(out, partial, rows, features, term, stream);
}

template <typename T>
void grad_bias(T* out, Wide<T>* partial, const T* grad_output, int64_t rows, int64_t features, cudaStream_t stream) {
  column_sum(out, partial, rows, features, BiasTerm<T>{grad_output, features}, stream);
}

#define LAUNCHERS(T)                                                                                     \
  template void forward<T>(                                                                              \
      T*, Wide<T>*, Wide<T>*, const T*, const T*, const T*, double, int64_t, int64_t, cudaStream_t);     \
  template void grad_x<T>(                                                                               \
      T*, const T*, const T*, const T*, const Wide<T>*, const Wide<T>*, int64_t, int64_t, cudaStream_t); \
  template void grad_weight<T>(                                                                          \
      T*, Wide<T>*, const T*, const T*, const Wide<T>*, const Wide<T>*, int64_t, int64_t, cudaStream_t); \
  template void grad_bias<T>(T*, Wide<T>*, const T*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::layer_norm_cuda

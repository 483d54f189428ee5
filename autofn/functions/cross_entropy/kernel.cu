// Cross entropy on CUDA: one block a row. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include <cassert>

#include "../../csrc/rows.cuh"

namespace autofn::cross_entropy_cuda {

// What a class and a target count: weight is null where all are 1, and all_weights the sum of them.
template <typename T>
struct Smoothing {
  const T* weight;
  const Wide<T>* all_weights;
  Wide<T> at_target, at_each;
  __device__ Wide<T> weight_of(int64_t i) const { return weight ? widen(weight[i]) : 1; }
};

template <typename T>
__global__ void forward_kernel(
    Wide<T>* losses,
    Wide<T>* logsumexps,
    const T* logits,
    const int64_t* target,
    Smoothing<T> smoothing,
    int64_t ignore_index,
    int64_t rows,
    int64_t classes) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = logits + row * classes;
    const int64_t t = target[row];
    const bool ignored = t == ignore_index;
    assert(ignored || (t >= 0 && t < classes));
    const W largest = row_max<W>(classes, [&](int64_t i) { return widen(x[i]); });
    const W shift = largest == -static_cast<W>(INFINITY) ? 0 : largest;
    // Of a row of -infinity alone it is -infinity, and the loss NaN.
    const W logsumexp = shift + ::log(row_sum<W>(classes, [&](int64_t i) { return ::exp(widen(x[i]) - shift); }));
    W loss = ignored ? 0 : smoothing.at_target * smoothing.weight_of(t) * (logsumexp - widen(x[t]));
    if (!ignored && smoothing.at_each != 0) {
      loss += smoothing.at_each *
              row_sum<W>(classes, [&](int64_t i) { return smoothing.weight_of(i) * (logsumexp - widen(x[i])); });
    }
    if (threadIdx.x == 0) {
      losses[row] = loss;
      logsumexps[row] = logsumexp;
    }
  }
}

// grad * (sum(q) * exp(x - logsumexp) - q), where q is at_target * weight at the target plus at_each * weight.
template <typename T>
__global__ void backward_kernel(
    T* grad_logits,
    const Wide<T>* grads,
    const T* logits,
    const int64_t* target,
    const Wide<T>* logsumexps,
    Smoothing<T> smoothing,
    int64_t ignore_index,
    int64_t rows,
    int64_t classes) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t first = row * classes, t = target[row];
    const bool ignored = t == ignore_index;
    const W of_target = ignored ? 0 : smoothing.at_target * smoothing.weight_of(t);
    const W total = of_target + smoothing.at_each * *smoothing.all_weights;
    for (int64_t i = threadIdx.x; i < classes; i += kThreads) {
      const W q = smoothing.at_each * smoothing.weight_of(i) + (i == t ? of_target : 0);
      const W gradient = grads[row] * (total * ::exp(widen(logits[first + i]) - logsumexps[row]) - q);
      grad_logits[first + i] = narrow<T>(ignored ? 0 : gradient);
    }
  }
}

template <typename T>
Smoothing<T> smoothing_of(const T* weight, const Wide<T>* all_weights, double label_smoothing, int64_t classes) {
  return {
      weight, all_weights, static_cast<Wide<T>>(1 - label_smoothing), static_cast<Wide<T>>(label_smoothing / classes)};
}

template <typename T>
void forward(
    Wide<T>* losses,
    Wide<T>* logsumexps,
    const T* logits,
    const int64_t* target,
    const T* weight,
    double label_smoothing,
    int64_t ignore_index,
    int64_t rows,
    int64_t classes,
    cudaStream_t stream) {
  if (rows == 0) return;
  forward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(
      losses, logsumexps, logits, target, smoothing_of<T>(weight, nullptr, label_smoothing, classes), ignore_index,
      rows, classes);
}

// grads: one a row. all_weights: one number on the device.
template <typename T>
void backward(
    T* grad_logits,
    const Wide<T>* grads,
    const T* logits,
    const int64_t* target,
    const Wide<T>* logsumexps,
    const T* weight,
    const Wide<T>* all_weights,
    double label_smoothing,
    int64_t ignore_index,
    int64_t rows,
    int64_t classes,
    cudaStream_t stream) {
  if (rows == 0) return;
  backward_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(
      grad_logits, grads, logits, target, logsumexps, smoothing_of<T>(weight, all_weights, label_smoothing, classes),
      ignore_index, rows, classes);
}

#define LAUNCHERS(T)                                                                                            \
  template void forward<T>(                                                                                     \
      Wide<T>*, Wide<T>*, const T*, const int64_t*, const T*, double, int64_t, int64_t, int64_t, cudaStream_t); \
  template void backward<T>(                                                                                    \
      T*, const Wide<T>*, const T*, const int64_t*, const Wide<T>*, const T*, const Wide<T>*, double, int64_t,  \
      int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::cross_entropy_cuda

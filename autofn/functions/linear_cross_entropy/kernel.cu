// The part of linear cross entropy between the products on CUDA: one block a row. Launchers only, no torch header;
// kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"

namespace autofn::linear_cross_entropy_cuda {

template <typename T>
__global__ void logsumexp_kernel(Wide<T>* out, const T* logits, int64_t rows, int64_t words) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = logits + row * words;
    const W largest = row_max<W>(words, [&](int64_t i) { return widen(x[i]); });
    const W shift = ::isinf(largest) ? 0 : largest;
    const W sum = row_sum<W>(words, [&](int64_t i) { return ::exp(widen(x[i]) - shift); });
    if (threadIdx.x == 0) out[row] = ::isinf(largest) ? largest : largest + ::log(sum);
  }
}

// In the place of the logits: factor * (exp(x - logsumexp) - (1 at the target, if it is one of these words)).
template <typename T>
__global__ void gradient_kernel(
    T* logits, const int64_t* target, const Wide<T>* logsumexp, const Wide<T>* factors, int64_t rows, int64_t words) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* x = logits + row * words;
    const W shift = logsumexp[row], factor = factors[row];
    for (int64_t i = threadIdx.x; i < words; i += kThreads) {
      const W distance = widen(x[i]) - shift;
      x[i] = narrow<T>(factor * (i == target[row] ? ::expm1(distance) : ::exp(distance)));
    }
  }
}

template <typename T>
void logsumexp(Wide<T>* out, const T* logits, int64_t rows, int64_t words, cudaStream_t stream) {
  if (rows == 0) return;
  logsumexp_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(out, logits, rows, words);
}

template <typename T>
void gradient(
    T* logits,
    const int64_t* target,
    const Wide<T>* logsumexp,
    const Wide<T>* factors,
    int64_t rows,
    int64_t words,
    cudaStream_t stream) {
  if (rows == 0) return;
  gradient_kernel<<<blocks_for_rows(rows), kThreads, 0, stream>>>(logits, target, logsumexp, factors, rows, words);
}

#define LAUNCHERS(T)                                                              \
  template void logsumexp<T>(Wide<T>*, const T*, int64_t, int64_t, cudaStream_t); \
  template void gradient<T>(T*, const int64_t*, const Wide<T>*, const Wide<T>*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::linear_cross_entropy_cuda

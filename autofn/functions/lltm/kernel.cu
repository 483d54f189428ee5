// The pointwise part of the long-term-memory cell on CUDA. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"

namespace autofn::lltm_cuda {

template <typename W>
__device__ __forceinline__ W sigmoid(W v) {
  return 1 / (1 + ::exp(-v));
}

template <typename W>
__device__ __forceinline__ W elu(W v) {
  return v > 0 ? v : ::expm1(v);
}

// gates: (batch, 3 * state), a row being i, o and c; all others (batch, state).
template <typename T>
__global__ void forward_kernel(T* new_h, T* new_cell, const T* gates, const T* old_cell, int64_t n, int64_t state) {
  for (int64_t at = first_index(); at < n; at += index_stride()) {
    const T* row = gates + at / state * 3 * state + at % state;
    const Wide<T> cell = widen(old_cell[at]) + elu(widen(row[2 * state])) * sigmoid(widen(row[0]));
    new_cell[at] = narrow<T>(cell);
    new_h[at] = narrow<T>(::tanh(cell) * sigmoid(widen(row[state])));
  }
}

template <typename T>
struct Backward {
  T* grad_gates;
  T* grad_old_cell;
  const T* grad_h;     // may be null
  const T* grad_cell;  // may be null
  const T* gates;
  const T* new_cell;
};

template <typename T>
__global__ void backward_kernel(Backward<T> p, int64_t n, int64_t state) {
  for (int64_t at = first_index(); at < n; at += index_stride()) {
    const int64_t first = at / state * 3 * state + at % state;
    const Wide<T> i = sigmoid(widen(p.gates[first])), o = sigmoid(widen(p.gates[first + state]));
    const Wide<T> a = elu(widen(p.gates[first + 2 * state])), t = ::tanh(widen(p.new_cell[at]));
    const Wide<T> dh = p.grad_h ? widen(p.grad_h[at]) : Wide<T>(0);
    const Wide<T> dcell = (p.grad_cell ? widen(p.grad_cell[at]) : Wide<T>(0)) + dh * o * (1 - t * t);
    p.grad_old_cell[at] = narrow<T>(dcell);
    p.grad_gates[first] = narrow<T>(dcell * a * i * (1 - i));
    p.grad_gates[first + state] = narrow<T>(dh * t * o * (1 - o));
    p.grad_gates[first + 2 * state] = narrow<T>(dcell * i * (a < 0 ? a + 1 : Wide<T>(1)));
  }
}

template <typename T>
struct Element {
  const T* rows;
  int64_t columns;
  __device__ Wide<T> operator()(int64_t row, int64_t column) const { return widen(rows[row * columns + column]); }
};

template <typename T>
void forward(
    T* new_h, T* new_cell, const T* gates, const T* old_cell, int64_t batch, int64_t state, cudaStream_t stream) {
  const int64_t n = batch * state;
  if (n > 0) forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(new_h, new_cell, gates, old_cell, n, state);
}

template <typename T>
void backward(
    T* grad_gates,
    T* grad_old_cell,
    const T* grad_h,
    const T* grad_cell,
    const T* gates,
    const T* new_cell,
    int64_t batch,
    int64_t state,
    cudaStream_t stream) {
  const int64_t n = batch * state;
  const Backward<T> pointers{grad_gates, grad_old_cell, grad_h, grad_cell, gates, new_cell};
  if (n > 0) backward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(pointers, n, state);
}

// partial: row_blocks(batch) * columns numbers.
template <typename T>
void bias_gradient(T* out, Wide<T>* partial, const T* grad_gates, int64_t batch, int64_t columns, cudaStream_t stream) {
  column_sum(out, partial, batch, columns, Element<T>{grad_gates, columns}, stream);
}

#define LAUNCHERS(T)                                                                                         \
  template void forward<T>(T*, T*, const T*, const T*, int64_t, int64_t, cudaStream_t);                      \
  template void backward<T>(T*, T*, const T*, const T*, const T*, const T*, int64_t, int64_t, cudaStream_t); \
  template void bias_gradient<T>(T*, Wide<T>*, const T*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::lltm_cuda

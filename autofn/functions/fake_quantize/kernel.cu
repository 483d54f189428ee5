// Fake quantisation on CUDA. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"
#include "../../csrc/rows.cuh"
#include "layout.h"

namespace autofn::fake_quantize_cuda {

using fake_quantize::Layout;
using fake_quantize::Range;

template <typename W>
struct Quantiser {
  W low, high;

  explicit Quantiser(Range range) : low(static_cast<W>(range.low)), high(static_cast<W>(range.high)) {}

  // Comparisons that are false for NaN, so that NaN stays.
  __device__ W clip(W ratio) const { return ratio < low ? low : ratio > high ? high : ratio; }
  __device__ W quantise(W x, W step) const { return ::rint(clip(x / step)) * step; }
  __device__ bool is_inside(W x, W step) const { return clip(x / step) == x / step; }
  __device__ W slope(W x, W step) const { return ::rint(clip(x / step)) - (is_inside(x, step) ? x / step : 0); }
};

// Where all elements have one step.
template <typename W>
struct Forward {
  Quantiser<W> quantiser;
  const W* step;
  __device__ W operator()(W x) const { return quantiser.quantise(x, *step); }
};

template <typename W>
struct Backward {
  Quantiser<W> quantiser;
  const W* step;
  __device__ W operator()(W grad_output, W x) const { return quantiser.is_inside(x, *step) ? grad_output : 0; }
};

template <typename T>
__global__ void forward_kernel(T* y, const T* x, const Wide<T>* steps, Quantiser<Wide<T>> quantiser, Layout layout) {
  for (int64_t i = first_index(); i < layout.elements(); i += index_stride())
    y[i] = narrow<T>(quantiser.quantise(widen(x[i]), steps[i / layout.inner % layout.channels]));
}

template <typename T>
__global__ void grad_x_kernel(
    T* grad_x, const T* grad_output, const T* x, const Wide<T>* steps, Quantiser<Wide<T>> quantiser, Layout layout) {
  for (int64_t i = first_index(); i < layout.elements(); i += index_stride()) {
    const bool inside = quantiser.is_inside(widen(x[i]), steps[i / layout.inner % layout.channels]);
    grad_x[i] = inside ? grad_output[i] : narrow<T>(0);
  }
}

// An element's term of grad_step; in rows of a number a channel, by row and channel.
template <typename T>
struct Term {
  const T* grad_output;
  const T* x;
  const Wide<T>* steps;
  Quantiser<Wide<T>> quantiser;
  int64_t channels;

  __device__ Wide<T> at(int64_t i, Wide<T> step) const {
    return widen(grad_output[i]) * quantiser.slope(widen(x[i]), step);
  }
  __device__ Wide<T> operator()(int64_t row, int64_t channel) const {
    return at(row * channels + channel, steps[channel]);
  }
};

// A block a piece.
template <typename T>
__global__ void sum_pieces_kernel(Wide<T>* sums, Term<T> term, Layout layout) {
  for (int64_t piece = blockIdx.x; piece < layout.pieces(); piece += gridDim.x) {
    const int64_t first = layout.first_of(piece);
    const Wide<T> step = term.steps[layout.channel_of(piece)];
    const Wide<T> sum = row_sum<Wide<T>>(layout.count_of(piece), [&](int64_t i) { return term.at(first + i, step); });
    if (threadIdx.x == 0) sums[piece] = sum;
  }
}

template <typename T>
void forward(T* y, const T* x, const Wide<T>* steps, Range range, Layout layout, cudaStream_t stream) {
  const int64_t n = layout.elements();
  const Quantiser<Wide<T>> quantiser(range);
  if (n == 0) return;
  if (layout.channels == 1) {
    map(y, n, Forward<Wide<T>>{quantiser, steps}, stream, x);
  } else {
    forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(y, x, steps, quantiser, layout);
  }
}

template <typename T>
void grad_x(
    T* out, const T* grad_output, const T* x, const Wide<T>* steps, Range range, Layout layout, cudaStream_t stream) {
  const int64_t n = layout.elements();
  const Quantiser<Wide<T>> quantiser(range);
  if (n == 0) return;
  if (layout.channels == 1) {
    map(out, n, Backward<Wide<T>>{quantiser, steps}, stream, grad_output, x);
  } else {
    grad_x_kernel<<<blocks_for(n), kThreads, 0, stream>>>(out, grad_output, x, steps, quantiser, layout);
  }
}

// sums: a number a piece.
template <typename T>
void sum_pieces(
    Wide<T>* sums,
    const T* grad_output,
    const T* x,
    const Wide<T>* steps,
    Range range,
    Layout layout,
    cudaStream_t stream) {
  if (layout.pieces() == 0) return;
  const Term<T> term{grad_output, x, steps, Quantiser<Wide<T>>(range), layout.channels};
  sum_pieces_kernel<<<blocks_for_rows(layout.pieces()), kThreads, 0, stream>>>(sums, term, layout);
}

// For a layout of rows. sums: a number a channel; partial: row_blocks(outer) * channels numbers.
template <typename T>
void sum_rows(
    Wide<T>* sums,
    Wide<T>* partial,
    const T* grad_output,
    const T* x,
    const Wide<T>* steps,
    Range range,
    Layout layout,
    cudaStream_t stream) {
  const Term<T> term{grad_output, x, steps, Quantiser<Wide<T>>(range), layout.channels};
  column_sum(sums, partial, layout.outer, layout.channels, term, stream);
}

#define LAUNCHERS(T)                                                                                      \
  template void forward<T>(T*, const T*, const Wide<T>*, Range, Layout, cudaStream_t);                    \
  template void grad_x<T>(T*, const T*, const T*, const Wide<T>*, Range, Layout, cudaStream_t);           \
  template void sum_pieces<T>(Wide<T>*, const T*, const T*, const Wide<T>*, Range, Layout, cudaStream_t); \
  template void sum_rows<T>(Wide<T>*, Wide<T>*, const T*, const T*, const Wide<T>*, Range, Layout, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::fake_quantize_cuda

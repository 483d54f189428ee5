// Rotary position embedding on CUDA: a thread a pair. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/device.cuh"

namespace autofn::rope_cuda {

// x and y: (rows, features); the position of a row is its number modulo `positions`.
template <typename T>
struct Turn {
  T* y;
  const T* x;
  const T* cos;
  const T* sin;
  int64_t rows, positions, features, pairs;
  bool interleaved;
  Wide<T> sign;  // 1, or -1 for the opposite angle
};

template <typename T>
__device__ void turn_pair(const Turn<T>& p, int64_t row, int64_t pair) {
  const int64_t angle = row % p.positions * p.pairs + pair;
  const int64_t first = row * p.features + (p.interleaved ? 2 * pair : pair);
  const int64_t second = first + (p.interleaved ? 1 : p.pairs);
  const Wide<T> a = widen(p.x[first]), b = widen(p.x[second]);
  const Wide<T> along = widen(p.cos[angle]), across = widen(p.sin[angle]) * p.sign;
  p.y[first] = narrow<T>(a * along - b * across);
  p.y[second] = narrow<T>(b * along + a * across);
}

// A row has a thread for each pair, then one for each feature that has no angle.
template <typename T>
__global__ void turn_kernel(Turn<T> p) {
  const int64_t threads = p.features - p.pairs;
  for (int64_t i = first_index(); i < p.rows * threads; i += index_stride()) {
    const int64_t row = i / threads, thread = i % threads;
    if (thread < p.pairs) {
      turn_pair(p, row, thread);
    } else {
      const int64_t at = row * p.features + p.pairs + thread;
      p.y[at] = p.x[at];
    }
  }
}

template <typename T>
void turn(
    T* y,
    const T* x,
    const T* cos,
    const T* sin,
    int64_t rows,
    int64_t positions,
    int64_t features,
    int64_t pairs,
    bool interleaved,
    bool opposite,
    cudaStream_t stream) {
  if (rows * features == 0) return;
  const Wide<T> sign = opposite ? -1 : 1;
  const Turn<T> p{y, x, cos, sin, rows, positions, features, pairs, interleaved, sign};
  turn_kernel<<<blocks_for(rows * (features - pairs)), kThreads, 0, stream>>>(p);
}

#define LAUNCHERS(T) \
  template void turn<T>(T*, const T*, const T*, const T*, int64_t, int64_t, int64_t, int64_t, bool, bool, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::rope_cuda

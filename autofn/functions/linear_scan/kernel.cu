// The linear recurrence on CUDA: a thread a channel, which walks along time. Launchers only, no torch header;
// kernel_cuda.cpp calls them.
#include "../../csrc/device.cuh"

namespace autofn::linear_scan_cuda {

// Few, for there are no more threads than channels, and they should keep all multiprocessors busy.
constexpr int kChannels = 64;
// Steps that are unrolled, so that what they load is under way before the first of them is done.
constexpr int kUnroll = 8;

// The way along time through tensors of (batch, time, channels).
struct Walk {
  int64_t batch, time, channels;
  bool reverse;

  __device__ int64_t channel() const { return first_index(); }
  __device__ bool is_inside() const { return channel() < batch * channels; }
  // Where the channel has its number of the step taken first, and how far on that of the next one lies.
  __device__ int64_t first() const {
    const int64_t start = channel() / channels * time + (reverse ? time - 1 : 0);
    return start * channels + channel() % channels;
  }
  __device__ int64_t stride() const { return reverse ? -channels : channels; }
};

inline unsigned blocks_of(const Walk& walk) {
  return static_cast<unsigned>(ceil_div(walk.batch * walk.channels, kChannels));
}

// No two arguments overlap.
template <typename T>
__global__ void forward_kernel(
    T* __restrict__ h, const T* __restrict__ a, const T* __restrict__ x, const T* __restrict__ initial, Walk walk) {
  if (!walk.is_inside()) return;
  const int64_t stride = walk.stride();
  int64_t at = walk.first();
  Wide<T> state = widen(initial[walk.channel()]);
#pragma unroll kUnroll
  for (int64_t step = 0; step < walk.time; ++step, at += stride) {
    state = widen(a[at]) * state + widen(x[at]);
    h[at] = narrow<T>(state);
  }
}

// From the last step taken to the first. grad_a or grad_x may be null; initial and h are read for grad_a only.
template <typename T>
__global__ void backward_kernel(
    T* __restrict__ grad_a,
    T* __restrict__ grad_x,
    T* __restrict__ grad_initial,
    const T* __restrict__ grad_h,
    const T* __restrict__ a,
    const T* __restrict__ initial,
    const T* __restrict__ h,
    Walk walk) {
  if (!walk.is_inside()) return;
  const int64_t stride = walk.stride();
  int64_t at = walk.first() + (walk.time - 1) * stride;
  Wide<T> carried = 0;  // a * g of the step after
#pragma unroll kUnroll
  for (int64_t step = walk.time - 1; step >= 0; --step, at -= stride) {
    const Wide<T> g = widen(grad_h[at]) + carried;
    carried = widen(a[at]) * g;
    if (grad_x) grad_x[at] = narrow<T>(g);
    if (grad_a) grad_a[at] = narrow<T>(g * widen(step > 0 ? h[at - stride] : initial[walk.channel()]));
  }
  grad_initial[walk.channel()] = narrow<T>(carried);
}

template <typename T>
void forward(
    T* h,
    const T* a,
    const T* x,
    const T* initial,
    int64_t batch,
    int64_t time,
    int64_t channels,
    bool reverse,
    cudaStream_t stream) {
  const Walk walk{batch, time, channels, reverse};
  if (batch * channels > 0) forward_kernel<<<blocks_of(walk), kChannels, 0, stream>>>(h, a, x, initial, walk);
}

template <typename T>
void backward(
    T* grad_a,
    T* grad_x,
    T* grad_initial,
    const T* grad_h,
    const T* a,
    const T* initial,
    const T* h,
    int64_t batch,
    int64_t time,
    int64_t channels,
    bool reverse,
    cudaStream_t stream) {
  const Walk walk{batch, time, channels, reverse};
  if (batch * channels == 0) return;
  backward_kernel<<<blocks_of(walk), kChannels, 0, stream>>>(grad_a, grad_x, grad_initial, grad_h, a, initial, h, walk);
}

#define LAUNCHERS(T)                                                                                         \
  template void forward<T>(T*, const T*, const T*, const T*, int64_t, int64_t, int64_t, bool, cudaStream_t); \
  template void backward<T>(                                                                                 \
      T*, T*, T*, const T*, const T*, const T*, const T*, int64_t, int64_t, int64_t, bool, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::linear_scan_cuda

// Element-wise kernels on CUDA from a functor of a few lines: 16 bytes a load and a store where the addresses allow it.
//
//   struct Forward { template <typename W> __device__ W operator()(W x) const { return x * x; } };
//   autofn::map(y, n, Forward{}, stream, x);
#pragma once

#include <cstdint>

#include "device.cuh"

namespace autofn {

// Sixteen bytes of elements, the widest load.
template <typename T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

// What an operation with N outputs returns.
template <typename W, int N>
struct Values {
  W values[N];
};

template <typename T, int N>
struct Outputs {
  T* to[N];
};

template <typename T, int N, typename Op, typename... In>
__device__ __forceinline__ void write_element(const Outputs<T, N>& out, int64_t i, const Op& op, In... in) {
  if constexpr (N == 1) {
    out.to[0][i] = narrow<T>(op(in...));
  } else {
    const Values<Wide<T>, N> found = op(in...);
#pragma unroll
    for (int j = 0; j < N; ++j) out.to[j][i] = narrow<T>(found.values[j]);
  }
}

// All elements one by one, from `first` on.
template <typename T, int N, typename Op, typename... In>
__global__ void map_kernel(Outputs<T, N> out, int64_t first, int64_t n, Op op, const In*... in) {
  for (int64_t i = first + first_index(); i < n; i += index_stride()) write_element(out, i, op, widen(in[i])...);
}

template <typename T, int N, typename Op, typename... In>
__device__ __forceinline__ void map_pack(Outputs<Pack<T>, N> out, int64_t i, const Op& op, const Pack<In>&... in) {
  Pack<T> packs[N];
  Outputs<T, N> at;
#pragma unroll
  for (int j = 0; j < N; ++j) at.to[j] = packs[j].values;
#pragma unroll
  for (int k = 0; k < Pack<T>::kSize; ++k) write_element(at, k, op, widen(in.values[k])...);
#pragma unroll
  for (int j = 0; j < N; ++j) out.to[j][i] = packs[j];
}

template <typename T, int N, typename Op, typename... In>
__global__ void map_packs_kernel(Outputs<Pack<T>, N> out, int64_t packs, Op op, const Pack<In>*... in) {
  for (int64_t i = first_index(); i < packs; i += index_stride())
    map_pack<T, N, Op, In...>(out, i, op, Pack<In>(in[i])...);
}

inline bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

// out.to[j][i] = op(in[i]...).values[j]; n elements each, all of one type. op takes and returns Wide<T>.
template <typename T, int N, typename Op, typename... In>
void map_to(Outputs<T, N> out, int64_t n, Op op, cudaStream_t stream, const In*... in) {
  bool aligned = (is_aligned(in) && ...);
  Outputs<Pack<T>, N> packed;
  for (int j = 0; j < N; ++j) {
    aligned = aligned && is_aligned(out.to[j]);
    packed.to[j] = reinterpret_cast<Pack<T>*>(out.to[j]);
  }
  const int64_t packs = aligned ? n / Pack<T>::kSize : 0, first = packs * Pack<T>::kSize;
  if (packs > 0) {
    map_packs_kernel<T, N, Op, In...>
        <<<blocks_for(packs), kThreads, 0, stream>>>(packed, packs, op, reinterpret_cast<const Pack<In>*>(in)...);
  }
  if (first < n) map_kernel<<<blocks_for(n - first), kThreads, 0, stream>>>(out, first, n, op, in...);
}

// out[i] = op(in[i]...).
template <typename T, typename Op, typename... In>
void map(T* out, int64_t n, Op op, cudaStream_t stream, const In*... in) {
  map_to(Outputs<T, 1>{{out}}, n, op, stream, in...);
}

}  // namespace autofn

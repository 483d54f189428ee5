// Vectorised, parallel passes over contiguous tensors, in the float type of the arithmetic (float for half types).
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/macros/Macros.h>

#include <array>

#include "lanes.h"

namespace autofn {

// Elements a thread takes at least; the same as at::internal::GRAIN_SIZE, whose header is a large one.
constexpr int64_t kGrain = 32768;

// Bytes of one output from which on it is written past the caches: it would not stay in them for its reader, and a
// plain store first reads each line that it then overwrites. Measured with 32 MiB of L3, relu forward and backward: at
// 8 MiB 0.87 of the time on one thread and the same on two, at 16 MiB 0.8; at 4 MiB 1.15 of it.
constexpr size_t kStreamBytes = size_t{8} << 20;

inline bool is_streamed(const at::Tensor& out) {
  return out.nbytes() >= kStreamBytes && reinterpret_cast<uintptr_t>(out.const_data_ptr()) % kStreamAlignment == 0;
}

// body(first, count) for all vectors of n elements, in parallel; a thread's range begins at a multiple of a vector.
// kStream: body stores past the caches. All that the body calls is inlined: GCC leaves a longer one a call, with its
// vectors handed over in memory and its constants loaded each time.
template <typename scalar_t, bool kStream, typename Body>
void for_elements(int64_t n, Body body) {
  constexpr int64_t width = Lanes<scalar_t>::kWidth;
  const auto range = [&](int64_t begin, int64_t end) __attribute__((flatten)) {
    // A copy that no store can reach: the pointers and constants of another would be loaded anew for each vector.
    const Body own = body;
    const int64_t whole = std::min(n / width, end);
    // Two vectors are a line of the cache.
#pragma GCC unroll 2
    for (int64_t i = begin; i < whole; ++i) own(i * width, width);
    if (whole < end) own(whole * width, n - whole * width);
    if (kStream) stream_fence();
  };
  at::parallel_for(0, (n + width - 1) / width, kGrain / width, range);
}

// Writes one output, either way.
template <typename scalar_t, bool kStream>
void put(const typename Lanes<scalar_t>::Vec& values, scalar_t* to, int64_t count) {
  using L = Lanes<scalar_t>;
  if (kStream && count == L::kWidth) {
    L::stream(values, to);
  } else {
    L::store(values, to, count);
  }
}

// op on each part of a vector of half-type elements: op sees Vectorized<Wide> always. Inlined by force: a call hands
// vectors over in memory, and an op of ten instructions then took ten times as long.
template <typename scalar_t, typename Op, typename... V>
C10_ALWAYS_INLINE typename Lanes<scalar_t>::Vec by_parts(Op op, const V&... in) {
  typename Lanes<scalar_t>::Vec out;
  for (int k = 0; k < Lanes<scalar_t>::kParts; ++k) out[k] = op(in[k]...);
  return out;
}

// As by_parts, where op returns an array of N vectors, one for each output.
template <typename scalar_t, size_t N, typename Op, typename... V>
C10_ALWAYS_INLINE std::array<typename Lanes<scalar_t>::Vec, N> by_parts_to(Op op, const V&... in) {
  std::array<typename Lanes<scalar_t>::Vec, N> out;
  for (int k = 0; k < Lanes<scalar_t>::kParts; ++k) {
    const auto part = op(in[k]...);
    for (size_t j = 0; j < N; ++j) out[j][k] = part[j];
  }
  return out;
}

template <typename scalar_t, bool kStream, size_t N, typename Op, typename... In>
void map_elements(int64_t n, std::array<scalar_t*, N> out, Op op, const In*... in) {
  using L = Lanes<scalar_t>;
  for_elements<scalar_t, kStream>(n, [=](int64_t i, int64_t count) {
    if constexpr (N == 1) {
      put<scalar_t, kStream>(by_parts<scalar_t>(op, L::load(in + i, count)...), out[0] + i, count);
    } else {
      const auto values = by_parts_to<scalar_t, N>(op, L::load(in + i, count)...);
      for (size_t j = 0; j < N; ++j) put<scalar_t, kStream>(values[j], out[j] + i, count);
    }
  });
}

// outs[j][i] = op(in[i]...)[j]; all of one shape and dtype, contiguous. op takes Vectorized<Wide> and returns
// std::array<Vectorized<Wide>, N>.
template <typename scalar_t, size_t N, typename Op, typename... In>
void map_to(const std::array<at::Tensor, N>& outs, Op op, const In&... in) {
  std::array<scalar_t*, N> out;
  for (size_t j = 0; j < N; ++j) out[j] = outs[j].template mutable_data_ptr<scalar_t>();
  if (is_streamed(outs[0])) {
    map_elements<scalar_t, true>(outs[0].numel(), out, op, in.template const_data_ptr<scalar_t>()...);
  } else {
    map_elements<scalar_t, false>(outs[0].numel(), out, op, in.template const_data_ptr<scalar_t>()...);
  }
}

// out[i] = op(in[i]...); all of one shape and dtype, contiguous. op maps Vectorized<Wide> to Vectorized<Wide>.
template <typename scalar_t, typename Op, typename... In>
void map(const at::Tensor& out, Op op, const In&... in) {
  map_to<scalar_t, 1>({out}, op, in...);
}

}  // namespace autofn

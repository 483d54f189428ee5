// One vectorised, parallel pass over contiguous tensors, in the float type of the arithmetic (float for half types).
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/ops/empty_like.h>

namespace autofn {

// Elements a thread takes at least; the same as at::internal::GRAIN_SIZE, whose header is a large one.
constexpr int64_t kGrain = 32768;

// out[i] = op(in[i]); all of one shape and dtype, contiguous. op maps Vectorized<T>, T being float for half types.
template <typename scalar_t, typename Op>
void map(const at::Tensor& out, const at::Tensor& in, Op op) {
  auto* y = out.mutable_data_ptr<scalar_t>();
  const auto* x = in.const_data_ptr<scalar_t>();
  at::parallel_for(
      0, out.numel(), kGrain, [&](int64_t begin, int64_t end) { at::vec::map(op, y + begin, x + begin, end - begin); });
}

// out[i] = op(a[i], b[i]).
template <typename scalar_t, typename Op>
void map2(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Op op) {
  auto* y = out.mutable_data_ptr<scalar_t>();
  const auto* pa = a.const_data_ptr<scalar_t>();
  const auto* pb = b.const_data_ptr<scalar_t>();
  at::parallel_for(0, out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    at::vec::map2(op, y + begin, pa + begin, pb + begin, end - begin);
  });
}

}  // namespace autofn

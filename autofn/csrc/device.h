// What the torch wrappers of CUDA kernels share: device guard, current stream, pointers in CUDA's own half types.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <type_traits>

#include "sizes.cuh"

namespace autofn {

template <typename scalar_t>
using DeviceType = std::conditional_t<
    std::is_same_v<scalar_t, at::Half>,
    __half,
    std::conditional_t<std::is_same_v<scalar_t, at::BFloat16>, __nv_bfloat16, scalar_t>>;

template <typename scalar_t>
const DeviceType<scalar_t>* read(const at::Tensor& tensor) {
  return reinterpret_cast<const DeviceType<scalar_t>*>(tensor.const_data_ptr<scalar_t>());
}

template <typename scalar_t>
DeviceType<scalar_t>* write(const at::Tensor& tensor) {
  return reinterpret_cast<DeviceType<scalar_t>*>(tensor.mutable_data_ptr<scalar_t>());
}

// Room for the partial sums of a sum over rows.
inline at::Tensor partial_sums(const at::Tensor& like, int64_t rows, int64_t columns) {
  const auto wide = at::toOpMathType(like.scalar_type());
  return at::empty({row_blocks(rows), columns}, like.options().dtype(wide));
}

inline cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

}  // namespace autofn

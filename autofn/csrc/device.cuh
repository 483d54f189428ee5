// What the CUDA kernels share, without a torch header: conversions, launch sizes, the list of types.
#pragma once

#include "sizes.cuh"

namespace autofn {

// By name, not by a cast: torch's build switches the implicit conversions of the half types off.
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T narrow(Wide<T> value) {
  return value;
}
template <>
__device__ __forceinline__ __half narrow<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over n elements: enough to fill any device, few enough for any grid.
inline unsigned blocks_for(int64_t n) {
  const int64_t blocks = ceil_div(n, kThreads);
  return static_cast<unsigned>(blocks < 65535 ? blocks : 65535);
}

__device__ __forceinline__ int64_t first_index() { return blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; }
__device__ __forceinline__ int64_t index_stride() { return gridDim.x * static_cast<int64_t>(blockDim.x); }

}  // namespace autofn

// Instantiates a launcher, given as a macro of the element type, for every type that the wrappers dispatch.
#define AUTOFN_FOR_FLOAT_TYPES(launcher) launcher(float) launcher(double) launcher(__half) launcher(__nv_bfloat16)

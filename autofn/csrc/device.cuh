// What the CUDA kernels share, without a torch header: conversions, launch sizes, sums.
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
constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// Blocks for a grid-stride loop over n elements: enough to fill any device, few enough for any grid.
inline unsigned blocks_for(int64_t n) {
  const int64_t blocks = ceil_div(n, kThreads);
  return static_cast<unsigned>(blocks < 65535 ? blocks : 65535);
}

__device__ __forceinline__ int64_t first_index() { return blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; }
__device__ __forceinline__ int64_t index_stride() { return gridDim.x * static_cast<int64_t>(blockDim.x); }

// The sum of `value` over a block of kThreads threads, handed to all of them.
template <typename W>
__device__ W block_sum(W value) {
  __shared__ W warps[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_down_sync(kFullMask, value, offset);
  // A call in a loop must not overwrite what a slower warp still reads.
  __syncthreads();
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  W total = 0;
  for (int warp = 0; warp < kThreads / kWarp; ++warp) total += warps[warp];
  return total;
}

// partial[block][column] = the sum over the block's rows of term(row, column). Grid (column blocks, row blocks).
template <typename W, typename Term>
__global__ void partial_column_sum_kernel(W* partial, int64_t rows, int64_t columns, Term term) {
  const int64_t each = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t begin = blockIdx.y * each;
  const int64_t end = begin + each < rows ? begin + each : rows;
  for (int64_t column = first_index(); column < columns; column += index_stride()) {
    W sum = 0;
    for (int64_t row = begin; row < end; ++row) sum += term(row, column);
    partial[blockIdx.y * columns + column] = sum;
  }
}

template <typename T>
__global__ void final_column_sum_kernel(T* out, const Wide<T>* partial, int64_t blocks, int64_t columns) {
  for (int64_t column = first_index(); column < columns; column += index_stride()) {
    Wide<T> sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += partial[block * columns + column];
    out[column] = narrow<T>(sum);
  }
}

// out[column] = the sum over the rows of term(row, column), in two launches and a fixed order: no atomics, so that two
// runs agree bit for bit. partial holds row_blocks(rows) * columns numbers.
template <typename T, typename Term>
void column_sum(T* out, Wide<T>* partial, int64_t rows, int64_t columns, Term term, cudaStream_t stream) {
  if (columns == 0) return;
  const dim3 grid(blocks_for(columns), static_cast<unsigned>(row_blocks(rows)));
  partial_column_sum_kernel<<<grid, kThreads, 0, stream>>>(partial, rows, columns, term);
  final_column_sum_kernel<T><<<grid.x, kThreads, 0, stream>>>(out, partial, grid.y, columns);
}

}  // namespace autofn

// Instantiates a launcher, given as a macro of the element type, for every type that the wrappers dispatch.
#define AUTOFN_FOR_FLOAT_TYPES(launcher) launcher(float) launcher(double) launcher(__half) launcher(__nv_bfloat16)

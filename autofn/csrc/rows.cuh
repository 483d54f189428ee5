// Row reductions on CUDA, one block a row, and sums over rows; no torch header.
#pragma once

#include <cmath>

#include "device.cuh"

namespace autofn {

constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// A block a row, as a loop over rows where there are more of them than a grid holds.
inline unsigned blocks_for_rows(int64_t rows) { return static_cast<unsigned>(rows < 65535 ? rows : 65535); }

struct Sum {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a + b;
  }
};

// A NaN wins, as in torch.amax.
struct Max {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a != a || a > b ? a : b;
  }
};

// op over the values of a block of kThreads threads, handed to all of them.
template <typename Op, typename W>
__device__ W block_reduce(W value, Op op = {}) {
  __shared__ W warps[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value = op(value, __shfl_down_sync(kFullMask, value, offset));
  // A call in a loop must not overwrite what a slower warp still reads.
  __syncthreads();
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  W total = warps[0];
  for (int warp = 1; warp < kThreads / kWarp; ++warp) total = op(total, warps[warp]);
  return total;
}

template <typename W>
__device__ W block_sum(W value) {
  return block_reduce<Sum>(value);
}

template <typename W>
__device__ W block_max(W value) {
  return block_reduce<Max>(value);
}

// The sum of term(i) for i below n, by a block of kThreads threads, handed to all of them.
template <typename W, typename Term>
__device__ W row_sum(int64_t n, Term term) {
  W sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) sum += term(i);
  return block_sum(sum);
}

// The largest of term(i), -infinity where n is 0; a NaN wins.
template <typename W, typename Term>
__device__ W row_max(int64_t n, Term term) {
  W largest = -static_cast<W>(INFINITY);
  for (int64_t i = threadIdx.x; i < n; i += kThreads) largest = Max{}(largest, term(i));
  return block_max(largest);
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

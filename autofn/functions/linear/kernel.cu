// The bias gradient of the linear layer on CUDA. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/rows.cuh"

namespace autofn::linear_cuda {

template <typename T>
struct Element {
  const T* rows;
  int64_t columns;
  __device__ Wide<T> operator()(int64_t row, int64_t column) const { return widen(rows[row * columns + column]); }
};

// partial: row_blocks(count) * columns numbers.
template <typename T>
void bias_gradient(T* out, Wide<T>* partial, const T* rows, int64_t count, int64_t columns, cudaStream_t stream) {
  column_sum(out, partial, count, columns, Element<T>{rows, columns}, stream);
}

#define LAUNCHERS(T) template void bias_gradient<T>(T*, Wide<T>*, const T*, int64_t, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::linear_cuda

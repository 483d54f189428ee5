// What a CUDA kernel and its torch wrapper must agree on; no torch header, no device code.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace autofn {

template <typename T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
// The type of the arithmetic: float for float and the half types, double for double.
template <typename T>
using Wide = typename WideOf<T>::type;

inline int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Blocks that share the rows of a sum over rows: 256 rows each, but no more blocks than the second launch adds up fast.
inline int64_t row_blocks(int64_t rows) {
  const int64_t blocks = ceil_div(rows, 256);
  return blocks < 1 ? 1 : (blocks < 1024 ? blocks : 1024);
}

}  // namespace autofn

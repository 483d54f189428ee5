// What the operators of dropout share on every device: the check of the arguments, and the mask's memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace autofn::dropout {

constexpr int64_t kMostElements = int64_t{1} << 31;
// Elements in a byte of a mask.
constexpr int64_t kBits = 8;

template <typename Int>
Int bytes_of(Int elements) {
  return (elements + (kBits - 1)) / kBits;
}

inline void check_inputs(const at::Tensor& x, double p) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "dropout: x must hold floating point numbers, got ", x.scalar_type());
  TORCH_CHECK_VALUE(
      x.sym_numel() <= kMostElements, "dropout: x must hold at most 2**31 elements, got ", x.sym_numel(),
      "; give each part its own seed");
  TORCH_CHECK_VALUE(p >= 0 && p < 1, "dropout: p must be at least 0 and below 1, got ", p);
}

inline at::Tensor empty_mask(const at::Tensor& x) {
  return at::empty_symint({bytes_of(x.sym_numel())}, x.options().dtype(at::kByte));
}

}  // namespace autofn::dropout

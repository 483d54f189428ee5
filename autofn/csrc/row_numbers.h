// What a forward keeps of each row for its backward, on every device.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace autofn {

// (..., 1): one number a row of the last dimension, in the float type of the arithmetic.
inline at::Tensor empty_row_numbers(const at::Tensor& x) {
  auto sizes = x.sym_sizes().vec();
  sizes.back() = 1;
  return at::empty_symint(sizes, x.options().dtype(at::toOpMathType(x.scalar_type())));
}

}  // namespace autofn

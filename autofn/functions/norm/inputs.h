// What the operators of norm share on every device: the check of the argument, and the output.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace autofn::norm {

inline void check_input(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "norm: x must hold floating point numbers, got ", x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() > 0, "norm: x must have at least one dimension, got a scalar");
}

// One number a row: the sizes of x without the last.
inline at::Tensor empty_output(const at::Tensor& x) {
  return at::empty_symint(x.sym_sizes().slice(0, x.dim() - 1), x.options());
}

}  // namespace autofn::norm

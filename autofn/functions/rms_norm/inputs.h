// What the operators of rms_norm share on every device: the check of the arguments, and the rows' numbers.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace autofn::rms_norm {

inline void check_inputs(const at::Tensor& x, const at::Tensor& weight, double eps) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "rms_norm: x must hold floating point numbers, got ", x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() > 0, "rms_norm: x must have at least one dimension, got a scalar");
  TORCH_CHECK_VALUE(
      weight.dim() == 1 && weight.sym_size(0) == x.sym_size(-1), "rms_norm: weight must have shape [", x.sym_size(-1),
      "], got ", weight.sym_sizes());
  TORCH_CHECK_VALUE(
      weight.scalar_type() == x.scalar_type(), "rms_norm: dtypes must be equal, got x ", x.scalar_type(),
      " and weight ", weight.scalar_type());
  TORCH_CHECK_VALUE(eps > 0, "rms_norm: eps must be above 0, got ", eps);
}

// (..., 1): one number a row, in the float type of the arithmetic.
inline at::Tensor empty_row_numbers(const at::Tensor& x) {
  auto sizes = x.sym_sizes().vec();
  sizes.back() = 1;
  return at::empty_symint(sizes, x.options().dtype(at::toOpMathType(x.scalar_type())));
}

}  // namespace autofn::rms_norm

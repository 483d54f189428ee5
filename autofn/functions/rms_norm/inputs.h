// What the operators of rms_norm share on every device: the check of the arguments.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace autofn::rms_norm

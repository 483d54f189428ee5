// What the operators of rope share on every device: the check of the arguments.
#pragma once

#include "../../csrc/require.h"

namespace autofn::rope {

inline void check_inputs(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  check_floating("rope", "x", x);
  TORCH_CHECK_VALUE(x.dim() >= 2, "rope: x must have at least two dimensions, got ", x.sym_sizes());
  TORCH_CHECK_VALUE(
      cos.dim() == 2 && cos.sym_size(0) == x.sym_size(-2), "rope: cos must have shape [", x.sym_size(-2), ", *], got ",
      cos.sym_sizes());
  check_equal("rope", "cos", cos, "sin", sin);
  TORCH_CHECK_VALUE(
      2 * cos.sym_size(1) <= x.sym_size(-1), "rope: cos must hold at most features / 2 pairs, got ", cos.sym_size(1),
      " for ", x.sym_size(-1), " features");
  TORCH_CHECK_VALUE(
      cos.scalar_type() == x.scalar_type(), "rope: dtypes must be equal, got x ", x.scalar_type(), " and cos ",
      cos.scalar_type());
  TORCH_CHECK_VALUE(
      cos.device() == x.device(), "rope: devices must be equal, got x ", x.device(), " and cos ", cos.device());
}

}  // namespace autofn::rope

// What the operators of softmax share on every device: the check of the argument.
#pragma once

#include <ATen/core/Tensor.h>

namespace autofn::softmax {

inline void check_input(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "softmax: x must hold floating point numbers, got ", x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() > 0, "softmax: x must have at least one dimension, got a scalar");
}

}  // namespace autofn::softmax

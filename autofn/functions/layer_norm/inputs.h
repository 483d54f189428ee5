// What the operators of layer_norm share on every device: the check of the arguments, and the shape of their rows.
#pragma once

#include <ATen/core/Tensor.h>

#include "../../csrc/require.h"

namespace autofn::layer_norm {

inline void check_parameter(const at::Tensor& x, const char* name, const at::Tensor& parameter) {
  TORCH_CHECK_VALUE(
      parameter.dim() == 1 && parameter.sym_size(0) == x.sym_size(-1), "layer_norm: ", name, " must have shape [",
      x.sym_size(-1), "], got ", parameter.sym_sizes());
  TORCH_CHECK_VALUE(
      parameter.scalar_type() == x.scalar_type(), "layer_norm: dtypes must be equal, got x ", x.scalar_type(), " and ",
      name, " ", parameter.scalar_type());
  TORCH_CHECK_VALUE(
      parameter.device() == x.device(), "layer_norm: devices must be equal, got x ", x.device(), " and ", name, " ",
      parameter.device());
}

inline void check_inputs(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  check_floating("layer_norm", "x", x);
  TORCH_CHECK_VALUE(x.dim() > 0, "layer_norm: x must have at least one dimension, got a scalar");
  check_parameter(x, "weight", weight);
  check_parameter(x, "bias", bias);
  TORCH_CHECK_VALUE(eps > 0, "layer_norm: eps must be above 0, got ", eps);
}

// A contiguous tensor as (rows, features).
inline at::Tensor rows_of(const at::Tensor& tensor) {
  const int64_t features = tensor.size(-1);
  return tensor.view({features == 0 ? 0 : tensor.numel() / features, features});
}

}  // namespace autofn::layer_norm

// What the operators of linear_scan share on every device: the check of the arguments.
#pragma once

#include "../../csrc/require.h"

namespace autofn::linear_scan {

inline void check_inputs(const at::Tensor& a, const at::Tensor& x, const at::Tensor& initial) {
  TORCH_CHECK_VALUE(a.dim() == 3, "linear_scan: a must have shape [*, *, *], got ", a.sym_sizes());
  TORCH_CHECK_VALUE(a.sym_size(1) > 0, "linear_scan: time must be at least one step, got a ", a.sym_sizes());
  check_equal("linear_scan", "a", a, "x", x);
  TORCH_CHECK_VALUE(
      initial.dim() == 2 && initial.sym_size(0) == a.sym_size(0) && initial.sym_size(1) == a.sym_size(2),
      "linear_scan: initial must have shape [", a.sym_size(0), ", ", a.sym_size(2), "], got ", initial.sym_sizes());
  check_floating("linear_scan", "initial", initial);
  TORCH_CHECK_VALUE(
      initial.scalar_type() == a.scalar_type(), "linear_scan: dtypes must be equal, got a ", a.scalar_type(),
      " and initial ", initial.scalar_type());
  TORCH_CHECK_VALUE(
      initial.device() == a.device(), "linear_scan: devices must be equal, got a ", a.device(), " and initial ",
      initial.device());
}

}  // namespace autofn::linear_scan

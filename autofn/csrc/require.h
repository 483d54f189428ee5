// What an argument must be, for the operators' own input checks: `who: rule, got what`. As autofn/require.py says it.
#pragma once

#include <ATen/core/Tensor.h>

namespace autofn {

inline void check_floating(const char* who, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(
      tensor.is_floating_point(), who, ": ", name, " must hold floating point numbers, got ", tensor.scalar_type());
}

// Two tensors of floating point numbers with one dtype, shape and device.
inline void check_equal(
    const char* who, const char* a_name, const at::Tensor& a, const char* b_name, const at::Tensor& b) {
  check_floating(who, a_name, a);
  check_floating(who, b_name, b);
  TORCH_CHECK_VALUE(
      a.scalar_type() == b.scalar_type(), who, ": dtypes must be equal, got ", a_name, " ", a.scalar_type(), " and ",
      b_name, " ", b.scalar_type());
  TORCH_CHECK_VALUE(
      a.sym_sizes() == b.sym_sizes(), who, ": shapes must be equal, got ", a_name, " ", a.sym_sizes(), " and ", b_name,
      " ", b.sym_sizes());
  TORCH_CHECK_VALUE(
      a.device() == b.device(), who, ": devices must be equal, got ", a_name, " ", a.device(), " and ", b_name, " ",
      b.device());
}

}  // namespace autofn

// What the operators of geglu share on every device: the check of the arguments.
#pragma once

#include <string_view>

#include "../../csrc/require.h"

namespace autofn::geglu {

// From here on p is 0 or 1 and does not change, in float64 too.
constexpr double kFar = 40;

inline void check_inputs(const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  check_equal("geglu", "gate", gate, "up", up);
  TORCH_CHECK_VALUE(
      approximate == "none" || approximate == "tanh", "geglu: approximate must be 'none' or 'tanh', got '", approximate,
      "'");
}

}  // namespace autofn::geglu

// What the operators of fake_quantize share on every device: the check of the arguments, where a step applies, and the
// end of its gradient.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "../../csrc/require.h"
#include "layout.h"

namespace autofn::fake_quantize {

using Channel = std::optional<int64_t>;

inline void check_step(const at::Tensor& x, const at::Tensor& step, Channel channel) {
  if (channel) {
    TORCH_CHECK_VALUE(
        -x.dim() <= *channel && *channel < x.dim(), "fake_quantize: channel must be a dimension of x, which has ",
        x.dim(), ", got ", *channel);
    TORCH_CHECK_VALUE(
        step.dim() == 1 && step.sym_size(0) == x.sym_size(*channel), "fake_quantize: step must have shape [",
        x.sym_size(*channel), "], got ", step.sym_sizes());
  } else {
    TORCH_CHECK_VALUE(
        step.dim() == 0 || (step.dim() == 1 && step.sym_size(0) == 1), "fake_quantize: step must be one number, got ",
        step.sym_sizes(), "; or give its channel");
  }
}

inline void check_inputs(const at::Tensor& x, const at::Tensor& step, Range range, Channel channel) {
  check_floating("fake_quantize", "x", x);
  check_floating("fake_quantize", "step", step);
  TORCH_CHECK_VALUE(
      step.scalar_type() == x.scalar_type(), "fake_quantize: dtypes must be equal, got x ", x.scalar_type(),
      " and step ", step.scalar_type());
  TORCH_CHECK_VALUE(
      step.device() == x.device(), "fake_quantize: devices must be equal, got x ", x.device(), " and step ",
      step.device());
  check_step(x, step, channel);
  TORCH_CHECK_VALUE(
      range.low < range.high, "fake_quantize: quant_min must be below quant_max, got ", range.low, " and ", range.high);
  TORCH_CHECK_VALUE(range.high > 0, "fake_quantize: quant_max must be above 0, got ", range.high);
}

inline Layout layout_of(const at::Tensor& x, Channel channel) {
  if (!channel) return {1, 1, x.numel()};
  const int64_t dim = *channel < 0 ? *channel + x.dim() : *channel;
  Layout layout{1, x.size(dim), 1};
  for (int64_t i = 0; i < dim; ++i) layout.outer *= x.size(i);
  for (int64_t i = dim + 1; i < x.dim(); ++i) layout.inner *= x.size(i);
  return layout;
}

// The steps in the float type of the arithmetic.
inline at::Tensor wide_steps(const at::Tensor& step) {
  return step.to(at::toOpMathType(step.scalar_type())).contiguous();
}

// Sums by piece as one sum a channel.
inline at::Tensor by_channel(const at::Tensor& sums, const Layout& layout) {
  return sums.view({layout.outer, layout.channels, layout.pieces_of_line()}).sum(at::IntArrayRef({0, 2}));
}

// grad_step from a sum a channel.
inline at::Tensor step_gradient(const at::Tensor& sums, const at::Tensor& step, const Layout& layout, Range range) {
  const double shared = static_cast<double>(std::max<int64_t>(1, layout.outer * layout.inner));
  return sums.mul(1 / std::sqrt(shared * static_cast<double>(range.high))).to(step.scalar_type()).view(step.sizes());
}

}  // namespace autofn::fake_quantize

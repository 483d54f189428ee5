// Clipped ReLU on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"

namespace {

using at::Tensor;

void check_inputs(const Tensor& x, double clip) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "clipped_relu: x must hold floating point numbers, got ", x.scalar_type());
  TORCH_CHECK_VALUE(clip > 0, "clipped_relu: clip must be above 0, got ", clip);
}

Tensor forward_cpu(const Tensor& x_in, double clip) {
  check_inputs(x_in, clip);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "clipped_relu_forward_cpu", [&] {
    using Vec = at::vec::Vectorized<at::opmath_type<scalar_t>>;
    const Vec low(0), high(clip);
    // at::vec's minimum and maximum keep NaN, as clamp does.
    autofn::map<scalar_t>(y, [=](Vec v) { return at::vec::minimum(high, at::vec::maximum(low, v)); }, x);
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& y_in, double clip) {
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "clipped_relu_backward_cpu", [&] {
    using Vec = at::vec::Vectorized<at::opmath_type<scalar_t>>;
    // y was clipped in its own dtype, so the corner is the clip rounded to it.
    const Vec low(0), high(static_cast<scalar_t>(clip));
    autofn::map<scalar_t>(grad_x, [=](Vec g, Vec v) { return g & (v > low) & (v < high); }, grad_output, y);
  });
  return grad_x;
}

Tensor forward_meta(const Tensor& x, double clip) {
  check_inputs(x, clip);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& y, double clip) {
  return at::empty_like(y, at::MemoryFormat::Contiguous);
}

class ClippedRelu : public torch::autograd::Function<ClippedRelu> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, double clip) {
    static const auto op = autofn::find<Tensor(const Tensor&, double)>("autofn::clipped_relu");
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor y = op.call(x, clip);
    ctx->save_for_backward({y});
    ctx->saved_data["clip"] = clip;
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<Tensor(const Tensor&, const Tensor&, double)>("autofn::clipped_relu_backward");
    const double clip = ctx->saved_data["clip"].toDouble();
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0], clip), Tensor()};
  }
};

Tensor forward_autograd(const Tensor& x, double clip) { return ClippedRelu::apply(x, clip); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("clipped_relu(Tensor x, float clip) -> Tensor");
  m.def("clipped_relu_backward(Tensor grad_output, Tensor y, float clip) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("clipped_relu", &forward_cpu);
  m.impl("clipped_relu_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("clipped_relu", &forward_meta);
  m.impl("clipped_relu_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("clipped_relu", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "clipped_relu_backward");
}

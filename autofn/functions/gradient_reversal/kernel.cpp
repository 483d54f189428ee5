// Gradient reversal on any device: a view, and a product. The formula and what is saved: see __init__.py.
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

using at::Tensor;

class GradientReversal : public torch::autograd::Function<GradientReversal> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, double strength) {
    ctx->saved_data["strength"] = strength;
    return x.view_as(x);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    return {at::mul(grad_outputs[0], -ctx->saved_data["strength"].toDouble()), Tensor()};
  }
};

// Made of PyTorch's own operators, so a compiler sees through it, and knows a view for what it is.
Tensor gradient_reversal(const Tensor& x, double strength) {
  TORCH_CHECK_VALUE(
      x.is_floating_point(), "gradient_reversal: x must hold floating point numbers, got ", x.scalar_type());
  return GradientReversal::apply(x, strength);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) { m.def("gradient_reversal(Tensor(a) x, float strength) -> Tensor(a)"); }
TORCH_LIBRARY_IMPL(autofn, CompositeImplicitAutograd, m) { m.impl("gradient_reversal", &gradient_reversal); }

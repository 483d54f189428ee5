// The exponential on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"

namespace {

using at::Tensor;

void check_input(const Tensor& x) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "exp: x must hold floating point numbers, got ", x.scalar_type());
}

Tensor forward_cpu(const Tensor& x_in) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "exp_forward_cpu", [&] {
    autofn::map<scalar_t>(y, [](auto v) { return v.exp(); }, x);
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& y_in) {
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "exp_backward_cpu", [&] {
    autofn::map<scalar_t>(grad_x, [](auto g, auto v) { return g * v; }, grad_output, y);
  });
  return grad_x;
}

Tensor forward_meta(const Tensor& x) {
  check_input(x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& y) {
  return at::empty_like(y, at::MemoryFormat::Contiguous);
}

class Exp : public torch::autograd::Function<Exp> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = autofn::find<Tensor(const Tensor&)>("autofn::exp");
    const Tensor y = op.call(x);
    ctx->save_for_backward({y});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<Tensor(const Tensor&, const Tensor&)>("autofn::exp_backward");
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

Tensor forward_autograd(const Tensor& x) { return Exp::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("exp(Tensor x) -> Tensor");
  m.def("exp_backward(Tensor grad_output, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("exp", &forward_cpu);
  m.impl("exp_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("exp", &forward_meta);
  m.impl("exp_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("exp", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "exp_backward");
}

// The rectified linear unit on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/require.h"

namespace {

using at::Tensor;

Tensor forward_cpu(const Tensor& x_in) {
  autofn::check_floating("relu", "x", x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "relu_forward_cpu", [&] {
    using Vec = at::vec::Vectorized<at::opmath_type<scalar_t>>;
    // at::vec's maximum keeps NaN.
    autofn::map<scalar_t>(y, [](Vec v) { return at::vec::maximum(v, Vec(0)); }, x);
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& y_in) {
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "relu_backward_cpu", [&] {
    using Vec = at::vec::Vectorized<at::opmath_type<scalar_t>>;
    // False for NaN, which lets grad_output through.
    autofn::map<scalar_t>(grad_x, [](Vec g, Vec v) { return Vec::blendv(g, Vec(0), v <= Vec(0)); }, grad_output, y);
  });
  return grad_x;
}

Tensor forward_meta(const Tensor& x) {
  autofn::check_floating("relu", "x", x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& y) {
  return at::empty_like(y, at::MemoryFormat::Contiguous);
}

class Relu : public torch::autograd::Function<Relu> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = autofn::find<Tensor(const Tensor&)>("autofn::relu");
    const Tensor y = op.call(x);
    ctx->save_for_backward({y});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<Tensor(const Tensor&, const Tensor&)>("autofn::relu_backward");
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

Tensor forward_autograd(const Tensor& x) { return Relu::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("relu(Tensor x) -> Tensor");
  m.def("relu_backward(Tensor grad_output, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("relu", &forward_cpu);
  m.impl("relu_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("relu", &forward_meta);
  m.impl("relu_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("relu", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "relu_backward");
}

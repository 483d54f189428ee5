// The cube on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/require.h"

namespace {

using at::Tensor;

Tensor forward_cpu(const Tensor& x_in) {
  autofn::check_floating("cube", "x", x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "cube_forward_cpu", [&] {
    autofn::map<scalar_t>(y, [](auto v) { return v * v * v; }, x);
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& x_in) {
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous();
  Tensor grad_x = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "cube_backward_cpu", [&] {
    autofn::map<scalar_t>(grad_x, [](auto g, auto v) { return g * v * (v + v + v); }, grad_output, x);
  });
  return grad_x;
}

Tensor forward_meta(const Tensor& x) {
  autofn::check_floating("cube", "x", x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& x) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

class Cube : public torch::autograd::Function<Cube> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = autofn::find<Tensor(const Tensor&)>("autofn::cube");
    ctx->save_for_backward({x});
    return op.call(x);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<Tensor(const Tensor&, const Tensor&)>("autofn::cube_backward");
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

Tensor forward_autograd(const Tensor& x) { return Cube::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("cube(Tensor x) -> Tensor");
  m.def("cube_backward(Tensor grad_output, Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("cube", &forward_cpu);
  m.impl("cube_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("cube", &forward_meta);
  m.impl("cube_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("cube", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "cube_backward");
}

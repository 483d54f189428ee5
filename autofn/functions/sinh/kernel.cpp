// The hyperbolic sine on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/require.h"

namespace {

using at::Tensor;

// x * (1 + x**2 / (2 * 3) * (1 + x**2 / (4 * 5) * (1 + ...))) for abs(x) < 1: what is left out is below half an ulp.
template <typename Vec>
Vec series(const Vec& x) {
  constexpr int last = sizeof(typename Vec::value_type) == sizeof(double) ? 16 : 10;
  const Vec square = x * x;
  Vec sum(1);
  for (int n = last; n > 0; n -= 2) sum = at::vec::fmadd(sum * square, Vec(1.0 / (n * (n + 1))), Vec(1));
  return x * sum;
}

// The formula loses digits near 0, where both exponentials are about 1.
template <typename Vec>
Vec sinh(const Vec& x) {
  const Vec size = x.abs(), e = size.exp(), half(0.5), sign = x & Vec(-0.0);
  const Vec formula = half * e - half / e;
  return Vec::blendv(formula | sign, series(x), size < Vec(1));
}

// cosh(x) from y = sinh(x). The square overflows where the root does not; there 1 + abs(y) is the same number,
// elsewhere it is larger.
template <typename Vec>
Vec cosh_of_sinh(const Vec& y) {
  const Vec one(1);
  return at::vec::minimum((one + y * y).sqrt(), one + y.abs());
}

Tensor forward_cpu(const Tensor& x_in) {
  autofn::check_floating("sinh", "x", x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "sinh_forward_cpu", [&] {
    autofn::map<scalar_t>(y, [](auto v) { return sinh(v); }, x);
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& y_in) {
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "sinh_backward_cpu", [&] {
    autofn::map<scalar_t>(grad_x, [](auto g, auto v) { return g * cosh_of_sinh(v); }, grad_output, y);
  });
  return grad_x;
}

Tensor forward_meta(const Tensor& x) {
  autofn::check_floating("sinh", "x", x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& y) {
  return at::empty_like(y, at::MemoryFormat::Contiguous);
}

class Sinh : public torch::autograd::Function<Sinh> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = autofn::find<Tensor(const Tensor&)>("autofn::sinh");
    const Tensor y = op.call(x);
    ctx->save_for_backward({y});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<Tensor(const Tensor&, const Tensor&)>("autofn::sinh_backward");
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

Tensor forward_autograd(const Tensor& x) { return Sinh::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("sinh(Tensor x) -> Tensor");
  m.def("sinh_backward(Tensor grad_output, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("sinh", &forward_cpu);
  m.impl("sinh_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("sinh", &forward_meta);
  m.impl("sinh_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("sinh", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "sinh_backward");
}

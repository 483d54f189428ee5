// A product with a constant on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"

namespace {

using at::Tensor;

void check_input(const Tensor& x) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "mul_constant: x must hold floating point numbers, got ", x.scalar_type());
}

Tensor product_cpu(const Tensor& x_in, double constant) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "mul_constant_cpu", [&] {
    const at::vec::Vectorized<at::opmath_type<scalar_t>> factor(constant);
    autofn::map<scalar_t>(y, [=](auto v) { return v * factor; }, x);
  });
  return y;
}

Tensor product_meta(const Tensor& x, double constant) {
  check_input(x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

// Through the dispatcher, so that a backward under create_graph records a node of its own: differentiable any number
// of times.
Tensor product(const Tensor& x, double constant) {
  static const auto op = autofn::find<Tensor(const Tensor&, double)>("autofn::mul_constant");
  return op.call(x, constant);
}

class MulConstant : public torch::autograd::Function<MulConstant> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, double constant) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["constant"] = constant;
    return product(x, constant);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    return {product(grad_outputs[0], ctx->saved_data["constant"].toDouble()), Tensor()};
  }
};

Tensor product_autograd(const Tensor& x, double constant) { return MulConstant::apply(x, constant); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) { m.def("mul_constant(Tensor x, float constant) -> Tensor"); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) { m.impl("mul_constant", &product_cpu); }
TORCH_LIBRARY_IMPL(autofn, Meta, m) { m.impl("mul_constant", &product_meta); }
TORCH_LIBRARY_IMPL(autofn, Autograd, m) { m.impl("mul_constant", &product_autograd); }

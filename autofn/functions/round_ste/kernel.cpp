// Straight-through rounding on the CPU. The formula, and why nothing is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"

namespace {

using at::Tensor;

void check_input(const Tensor& x) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "round_ste: x must hold floating point numbers, got ", x.scalar_type());
}

Tensor forward_cpu(const Tensor& x_in) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "round_ste_cpu", [&] {
    // at::vec rounds halves to even.
    autofn::map<scalar_t>(y, [](auto v) { return v.round(); }, x);
  });
  return y;
}

Tensor forward_meta(const Tensor& x) {
  check_input(x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

class RoundSte : public torch::autograd::Function<RoundSte> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    static const auto op = autofn::find<Tensor(const Tensor&)>("autofn::round_ste");
    at::AutoDispatchBelowADInplaceOrView guard;
    return op.call(x);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    return grad_outputs;
  }
};

Tensor forward_autograd(const Tensor& x) { return RoundSte::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) { m.def("round_ste(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) { m.impl("round_ste", &forward_cpu); }
TORCH_LIBRARY_IMPL(autofn, Meta, m) { m.impl("round_ste", &forward_meta); }
TORCH_LIBRARY_IMPL(autofn, Autograd, m) { m.impl("round_ste", &forward_autograd); }

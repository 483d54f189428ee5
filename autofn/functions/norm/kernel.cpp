// The Euclidean norm on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/rows.h"
#include "inputs.h"
#include "squares.h"

namespace {

using at::Tensor;
using autofn::norm::check_input;
using autofn::norm::empty_output;

template <typename scalar_t>
at::opmath_type<scalar_t> norm_row(const scalar_t* x, int64_t features) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  const Wide squares = autofn::sum_lanes<scalar_t>(features, [=](int64_t i, int64_t n) {
    const auto v = L::load(x + i, n);
    return v * v;
  });
  if (squares >= autofn::norm::kLeastSquares<Wide> && std::isfinite(squares)) return std::sqrt(squares);
  const Wide largest =
      autofn::max_lanes<scalar_t>(features, [=](int64_t i, int64_t n) { return L::load(x + i, n).abs(); });
  // Also where there is none and the largest is -infinity.
  if (largest <= 0) return 0;
  if (std::isinf(largest)) return largest;
  const typename L::Vec scale(largest);
  return largest * std::sqrt(autofn::sum_lanes<scalar_t>(features, [=](int64_t i, int64_t n) {
           const auto v = L::load(x + i, n) / scale;
           return v * v;
         }));
}

// grad_output, y: of this row.
template <typename scalar_t, bool kStream>
void gradient_row(
    autofn::OutputRow<scalar_t, kStream> grad_x,
    at::opmath_type<scalar_t> grad_output,
    const scalar_t* x,
    at::opmath_type<scalar_t> y) {
  using L = autofn::Lanes<scalar_t>;
  // Not x times an inverse, which overflows where y is denormal; in a row of 0 the divisor does not matter.
  const typename L::Vec factor(grad_output), length(y == 0 ? 1 : y);
  grad_x.write([=](int64_t i, int64_t n) { return factor * (L::load(x + i, n) / length); });
}

Tensor forward_cpu(const Tensor& x_in) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = empty_output(x);
  const int64_t features = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "norm_forward_cpu", [&] {
    auto* py = y.mutable_data_ptr<scalar_t>();
    const auto* px = x.const_data_ptr<scalar_t>();
    autofn::for_rows(y.numel(), features, [&](int64_t row) { py[row] = norm_row(px + row * features, features); });
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& x_in, const Tensor& y_in) {
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "norm_backward_cpu", [&] {
    const auto* g = grad_output.const_data_ptr<scalar_t>();
    const auto* px = x.const_data_ptr<scalar_t>();
    const auto* py = y.const_data_ptr<scalar_t>();
    autofn::write_rows<scalar_t>(
        grad_x, [&](auto out, int64_t row) { gradient_row(out, g[row], px + row * out.columns, py[row]); });
  });
  return grad_x;
}

Tensor forward_meta(const Tensor& x) {
  check_input(x);
  return empty_output(x);
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& x, const Tensor& y) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

class Norm : public torch::autograd::Function<Norm> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    static const auto op = autofn::find<decltype(forward_cpu)>("autofn::norm");
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor y = op.call(x);
    ctx->save_for_backward({x, y});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::norm_backward");
    const auto saved = ctx->get_saved_variables();
    return {op.call(grad_outputs[0], saved[0], saved[1])};
  }
};

Tensor forward_autograd(const Tensor& x) { return Norm::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("norm(Tensor x) -> Tensor");
  m.def("norm_backward(Tensor grad_output, Tensor x, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("norm", &forward_cpu);
  m.impl("norm_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("norm", &forward_meta);
  m.impl("norm_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("norm", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "norm_backward");
}

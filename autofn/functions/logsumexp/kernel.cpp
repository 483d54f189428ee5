// The logarithm of summed exponentials on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "../../csrc/exponential.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/row_numbers.h"
#include "../../csrc/rows.h"
#include "inputs.h"

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using autofn::empty_row_numbers;
using autofn::logsumexp::check_input;
using autofn::logsumexp::empty_output;

template <typename scalar_t>
using Vec = typename autofn::Lanes<scalar_t>::Vec;

template <typename scalar_t>
Vec<scalar_t> exponential(const Vec<scalar_t>& x) {
  return autofn::by_parts<scalar_t>([](auto v) { return autofn::exp_of_negative(v); }, x);
}

template <typename scalar_t>
at::opmath_type<scalar_t> largest_of(const scalar_t* x, int64_t features) {
  using L = autofn::Lanes<scalar_t>;
  return autofn::max_lanes<scalar_t>(features, [&](int64_t i, int64_t n) { return L::load(x + i, n); });
}

// Returns y; `inverse` becomes one over the sum, or 1 where the largest is infinite.
template <typename scalar_t>
at::opmath_type<scalar_t> logsumexp_row(const scalar_t* x, int64_t features, at::opmath_type<scalar_t>& inverse) {
  using L = autofn::Lanes<scalar_t>;
  inverse = 1;
  const auto largest = largest_of(x, features);
  if (std::isinf(largest)) return largest;
  const Vec<scalar_t> shift(largest);
  const auto sum = autofn::sum_lanes<scalar_t>(
      features, [&](int64_t i, int64_t n) { return exponential<scalar_t>(L::load(x + i, n) - shift); });
  inverse = 1 / sum;
  return largest + std::log(sum);
}

// grad_output, inverse: of this row.
template <typename scalar_t, bool kStream>
void gradient_row(
    autofn::OutputRow<scalar_t, kStream> grad_x,
    at::opmath_type<scalar_t> grad_output,
    const scalar_t* x,
    at::opmath_type<scalar_t> inverse) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  const Wide largest = largest_of(x, grad_x.columns);
  const Vec<scalar_t> factor(grad_output * inverse),
      shift(largest == -std::numeric_limits<Wide>::infinity() ? 0 : largest);
  grad_x.write([&](int64_t i, int64_t n) { return factor * exponential<scalar_t>(L::load(x + i, n) - shift); });
}

Pair forward_cpu(const Tensor& x_in) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = empty_output(x), inverse = empty_row_numbers(x);
  const int64_t features = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "logsumexp_forward_cpu", [&] {
    auto* py = y.mutable_data_ptr<scalar_t>();
    const auto* px = x.const_data_ptr<scalar_t>();
    auto* numbers = inverse.mutable_data_ptr<at::opmath_type<scalar_t>>();
    autofn::for_rows(y.numel(), features, [&](int64_t row) {
      py[row] = logsumexp_row(px + row * features, features, numbers[row]);
    });
  });
  return {y, inverse};
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& x_in, const Tensor& inverse) {
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous();
  Tensor grad_x = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "logsumexp_backward_cpu", [&] {
    const auto* g = grad_output.const_data_ptr<scalar_t>();
    const auto* px = x.const_data_ptr<scalar_t>();
    const auto* numbers = inverse.const_data_ptr<at::opmath_type<scalar_t>>();
    autofn::write_rows<scalar_t>(
        grad_x, [&](auto out, int64_t row) { gradient_row(out, g[row], px + row * out.columns, numbers[row]); });
  });
  return grad_x;
}

Pair forward_meta(const Tensor& x) {
  check_input(x);
  return {empty_output(x), empty_row_numbers(x)};
}

Tensor backward_meta(const Tensor& grad_output, const Tensor& x, const Tensor& inverse) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Pair call_forward(const Tensor& x) {
  static const auto op = autofn::find<decltype(forward_cpu)>("autofn::logsumexp_forward");
  return op.call(x);
}

class LogSumExp : public torch::autograd::Function<LogSumExp> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [y, inverse] = call_forward(x);
    ctx->save_for_backward({x, inverse});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::logsumexp_backward");
    const auto saved = ctx->get_saved_variables();
    return {op.call(grad_outputs[0], saved[0], saved[1])};
  }
};

Tensor forward(const Tensor& x) { return std::get<0>(call_forward(x)); }

Tensor forward_autograd(const Tensor& x) { return LogSumExp::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("logsumexp(Tensor x) -> Tensor");
  m.def("logsumexp_forward(Tensor x) -> (Tensor y, Tensor inverse_sum)");
  m.def("logsumexp_backward(Tensor grad_output, Tensor x, Tensor inverse_sum) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) { m.impl("logsumexp", &forward); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("logsumexp_forward", &forward_cpu);
  m.impl("logsumexp_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("logsumexp_forward", &forward_meta);
  m.impl("logsumexp_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("logsumexp", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "logsumexp_backward");
}

// Softmax on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>

#include "../../csrc/exponential.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/rows.h"
#include "inputs.h"

namespace {

using at::Tensor;
using autofn::softmax::check_input;

// The exponentials of a row that are kept until their sum is known: they and the row stay in the caches. A longer row
// computes them twice.
constexpr int64_t kKeptBytes = 64 << 10;

template <typename scalar_t, bool kStream>
void softmax_row(autofn::OutputRow<scalar_t, kStream> y, const scalar_t* x) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  using Vec = typename L::Vec;
  constexpr int64_t kKept = kKeptBytes / sizeof(Wide);
  Wide kept[kKept];
  const bool keeps = y.columns <= kKept;

  const Wide largest = autofn::max_lanes<scalar_t>(y.columns, [&](int64_t i, int64_t n) { return L::load(x + i, n); });
  const Vec shift(largest == -std::numeric_limits<Wide>::infinity() ? 0 : largest);
  const auto exponential = [&](int64_t i, int64_t n) {
    return autofn::by_parts<scalar_t>([](auto v) { return autofn::exp_of_negative(v); }, L::load(x + i, n) - shift);
  };
  const Wide sum = autofn::sum_lanes<scalar_t>(y.columns, [&](int64_t i, int64_t n) {
    const Vec e = exponential(i, n);
    if (keeps) L::store_wide(e, kept + i);
    return e;
  });
  // The sum is at least 1, but for a masked row.
  const Vec factor(sum == 0 ? 0 : 1 / sum);
  y.write([&](int64_t i, int64_t n) { return (keeps ? L::load_wide(kept + i) : exponential(i, n)) * factor; });
}

template <typename scalar_t, bool kStream>
void gradient_row(autofn::OutputRow<scalar_t, kStream> grad_x, const scalar_t* grad_output, const scalar_t* y) {
  using L = autofn::Lanes<scalar_t>;
  const typename L::Vec dot(autofn::sum_lanes<scalar_t>(grad_x.columns, [&](int64_t i, int64_t n) {
    return L::load(grad_output + i, n) * L::load(y + i, n);
  }));
  grad_x.write([&](int64_t i, int64_t n) { return L::load(y + i, n) * (L::load(grad_output + i, n) - dot); });
}

Tensor forward_cpu(const Tensor& x_in) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "softmax_forward_cpu", [&] {
    const auto* px = x.const_data_ptr<scalar_t>();
    autofn::write_rows<scalar_t>(y, [&](auto out, int64_t row) { softmax_row(out, px + row * out.columns); });
  });
  return y;
}

Tensor backward_cpu(const Tensor& grad_output_in, const Tensor& y_in) {
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "softmax_backward_cpu", [&] {
    const auto* g = grad_output.const_data_ptr<scalar_t>();
    const auto* py = y.const_data_ptr<scalar_t>();
    autofn::write_rows<scalar_t>(grad_x, [&](auto out, int64_t row) {
      const int64_t first = row * out.columns;
      gradient_row(out, g + first, py + first);
    });
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

class Softmax : public torch::autograd::Function<Softmax> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    static const auto op = autofn::find<Tensor(const Tensor&)>("autofn::softmax");
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor y = op.call(x);
    ctx->save_for_backward({y});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<Tensor(const Tensor&, const Tensor&)>("autofn::softmax_backward");
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

Tensor forward_autograd(const Tensor& x) { return Softmax::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("softmax(Tensor x) -> Tensor");
  m.def("softmax_backward(Tensor grad_output, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("softmax", &forward_cpu);
  m.impl("softmax_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("softmax", &forward_meta);
  m.impl("softmax_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("softmax", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "softmax_backward");
}

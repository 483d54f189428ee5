// Root-mean-square normalisation on the CPU. The formula and what is saved: see __init__.py.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "../../csrc/columns.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/row_numbers.h"
#include "inputs.h"

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

using autofn::empty_row_numbers;
using autofn::rms_norm::check_inputs;

// y = x * r * weight; returns r. While y is written the next row is fetched, which would wait for its sum otherwise.
template <typename scalar_t, bool kStream>
at::opmath_type<scalar_t> normalise_row(
    autofn::OutputRow<scalar_t, kStream> y, const scalar_t* x, const scalar_t* weight, double eps) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  const Wide squares = autofn::sum_lanes<scalar_t>(y.columns, [=](int64_t i, int64_t n) {
    const auto v = L::load(x + i, n);
    return v * v;
  });
  const Wide inverse = 1 / std::sqrt(squares / y.columns + static_cast<Wide>(eps));
  const typename L::Vec r(inverse);
  y.write([=](int64_t i, int64_t n) {
    __builtin_prefetch(x + y.columns + i);
    return L::load(x + i, n) * r * L::load(weight + i, n);
  });
  return inverse;
}

Pair forward_cpu(const Tensor& x_in, const Tensor& weight_in, double eps) {
  check_inputs(x_in, weight_in, eps);
  const Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
  Tensor y = at::empty_like(x), inverse = empty_row_numbers(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm_forward_cpu", [&] {
    auto* r = inverse.mutable_data_ptr<at::opmath_type<scalar_t>>();
    const auto* px = x.const_data_ptr<scalar_t>();
    const auto* w = weight.const_data_ptr<scalar_t>();
    autofn::write_rows<scalar_t>(
        y, [&](auto out, int64_t row) { r[row] = normalise_row(out, px + row * out.columns, w, eps); });
  });
  return {y, inverse};
}

// The gradients, row by row; weight is null where grad_x is not needed, sums where grad_weight is not.
template <typename scalar_t>
struct Gradients {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  using Vec = typename L::Vec;

  const scalar_t* grad_output;
  const scalar_t* x;
  const Wide* inverse;
  const scalar_t* weight;
  Wide* sums;
  int64_t features;

  // Adds grad_output * x * r to the sums; returns the sum of grad_output * x * weight.
  Wide add_weight_gradient(int64_t row) const {
    const auto [g, v] = at(row);
    const Vec r(inverse[row]);
    Wide* own = sums ? autofn::own_sums(sums, features) : nullptr;
    const Wide dot = autofn::sum_lanes<scalar_t>(features, [=, w = weight](int64_t i, int64_t n) {
      const Vec product = L::load(g + i, n) * L::load(v + i, n);
      if (own) L::store_wide(L::load_wide(own + i, n) + product * r, own + i, n);
      return w ? product * L::load(w + i, n) : product;
    });
    if (own) autofn::carry<scalar_t>(own, features, row + 1);
    return dot;
  }

  template <bool kStream>
  void write_grad_x(autofn::OutputRow<scalar_t, kStream> grad_x, int64_t row) const {
    const auto [g, v] = at(row);
    const Wide mean = add_weight_gradient(row) / features, r = inverse[row];
    grad_x.write([=, w = weight, scale = Vec(r), along_x = Vec(r * r * r * mean)](int64_t i, int64_t n) {
      return scale * (L::load(g + i, n) * L::load(w + i, n)) - along_x * L::load(v + i, n);
    });
  }

  std::pair<const scalar_t*, const scalar_t*> at(int64_t row) const {
    return {grad_output + row * features, x + row * features};
  }
};

// grad_x where weight is given, grad_weight where it is needed.
Pair backward_cpu(
    const Tensor& grad_output_in,
    const Tensor& x_in,
    const OptionalTensor& weight_in,
    const Tensor& inverse,
    bool needs_weight) {
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous();
  const Tensor weight = weight_in ? weight_in->contiguous() : Tensor();
  const int64_t features = x.size(-1);
  Tensor grad_x = weight_in ? at::empty_like(x) : Tensor();
  Tensor partial = needs_weight ? autofn::partial_sums(x, features) : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm_backward_cpu", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const Gradients<scalar_t> gradients{
        grad_output.const_data_ptr<scalar_t>(),
        x.const_data_ptr<scalar_t>(),
        inverse.const_data_ptr<Wide>(),
        weight_in ? weight.const_data_ptr<scalar_t>() : nullptr,
        needs_weight ? partial.mutable_data_ptr<Wide>() : nullptr,
        features};
    if (weight_in) {
      autofn::write_rows<scalar_t>(grad_x, [&](auto out, int64_t row) { gradients.write_grad_x(out, row); });
    } else {
      at::parallel_for(0, inverse.numel(), autofn::row_grain(features), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) gradients.add_weight_gradient(row);
      });
    }
  });
  return {grad_x, needs_weight ? autofn::total(partial, x.scalar_type()) : Tensor()};
}

Pair forward_meta(const Tensor& x, const Tensor& weight, double eps) {
  check_inputs(x, weight, eps);
  return {at::empty_like(x, at::MemoryFormat::Contiguous), empty_row_numbers(x)};
}

Pair backward_meta(
    const Tensor& grad_output,
    const Tensor& x,
    const OptionalTensor& weight,
    const Tensor& inverse,
    bool needs_weight) {
  return {
      weight ? at::empty_like(x, at::MemoryFormat::Contiguous) : Tensor(),
      needs_weight ? at::empty_symint({x.sym_size(-1)}, x.options()) : Tensor()};
}

Pair call_forward(const Tensor& x, const Tensor& weight, double eps) {
  static const auto op = autofn::find<decltype(forward_cpu)>("autofn::rms_norm_forward");
  return op.call(x, weight, eps);
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [y, inverse] = call_forward(x, weight, eps);
    ctx->save_for_backward({x, x.requires_grad() ? weight : Tensor(), inverse});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::rms_norm_backward");
    const auto saved = ctx->get_saved_variables();
    const auto weight = ctx->needs_input_grad(0) ? OptionalTensor(saved[1]) : std::nullopt;
    const auto [grad_x, grad_weight] = op.call(grad_outputs[0], saved[0], weight, saved[2], ctx->needs_input_grad(1));
    return {grad_x, grad_weight, Tensor()};
  }
};

Tensor forward(const Tensor& x, const Tensor& weight, double eps) { return std::get<0>(call_forward(x, weight, eps)); }

Tensor forward_autograd(const Tensor& x, const Tensor& weight, double eps) { return RmsNorm::apply(x, weight, eps); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("rms_norm_forward(Tensor x, Tensor weight, float eps) -> (Tensor y, Tensor inverse_rms)");
  m.def(
      "rms_norm_backward(Tensor grad_output, Tensor x, Tensor? weight, Tensor inverse_rms, bool needs_weight) -> "
      "(Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) { m.impl("rms_norm", &forward); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("rms_norm_forward", &forward_cpu);
  m.impl("rms_norm_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("rms_norm_forward", &forward_meta);
  m.impl("rms_norm_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("rms_norm", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "rms_norm_backward");
}

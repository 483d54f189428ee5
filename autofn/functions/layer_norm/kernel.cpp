// Layer normalisation on the CPU. The formula and what is saved: see __init__.py.
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
using Triple = std::tuple<Tensor, Tensor, Tensor>;

using autofn::empty_row_numbers;
using autofn::layer_norm::check_inputs;

// What one row is shifted and scaled by.
template <typename Wide>
struct Moments {
  Wide mean, inverse;
};

// Two passes over a row, which stays in the caches. The differences from the mean would add up to 0, had it not been
// rounded: their sum corrects it, and the variance.
template <typename scalar_t>
Moments<at::opmath_type<scalar_t>> moments_of(const scalar_t* x, int64_t features, double eps) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  const Wide mean =
      autofn::sum_lanes<scalar_t>(features, [=](int64_t i, int64_t n) { return L::load(x + i, n); }) / features;
  const typename L::Vec shift(mean);
  const auto [drift, squares] = autofn::sums_of_lanes<scalar_t, 2>(features, [=](int64_t i, int64_t n) {
    const auto centred = L::load(x + i, n) - shift;
    return std::array{centred, centred * centred};
  });
  // Rounding may bring a constant row below 0.
  const Wide variance = std::max<Wide>(0, (squares - drift * drift / features) / features);
  return {mean + drift / features, 1 / std::sqrt(variance + static_cast<Wide>(eps))};
}

// While y is written the next row is fetched, which would wait for its mean otherwise.
template <typename scalar_t, bool kStream>
void normalise_row(
    autofn::OutputRow<scalar_t, kStream> y,
    const scalar_t* x,
    const scalar_t* weight,
    const scalar_t* bias,
    Moments<at::opmath_type<scalar_t>> moments) {
  using L = autofn::Lanes<scalar_t>;
  const typename L::Vec mean(moments.mean), r(moments.inverse);
  y.write([=](int64_t i, int64_t n) {
    __builtin_prefetch(x + y.columns + i);
    return (L::load(x + i, n) - mean) * r * L::load(weight + i, n) + L::load(bias + i, n);
  });
}

Triple forward_cpu(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in, double eps) {
  check_inputs(x_in, weight_in, bias_in, eps);
  const Tensor x = x_in.contiguous(), weight = weight_in.contiguous(), bias = bias_in.contiguous();
  Tensor y = at::empty_like(x), mean = empty_row_numbers(x), inverse = empty_row_numbers(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "layer_norm_forward_cpu", [&] {
    auto* m = mean.mutable_data_ptr<at::opmath_type<scalar_t>>();
    auto* r = inverse.mutable_data_ptr<at::opmath_type<scalar_t>>();
    const auto* px = x.const_data_ptr<scalar_t>();
    const auto* w = weight.const_data_ptr<scalar_t>();
    const auto* b = bias.const_data_ptr<scalar_t>();
    autofn::write_rows<scalar_t>(y, [&](auto out, int64_t row) {
      const auto* from = px + row * out.columns;
      const auto moments = moments_of(from, out.columns, eps);
      normalise_row(out, from, w, b, moments);
      m[row] = moments.mean;
      r[row] = moments.inverse;
    });
  });
  return {y, mean, inverse};
}

// The gradients, row by row; weight is null where grad_x is not needed, the sums where their gradients are not.
template <typename scalar_t>
struct Gradients {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  using Vec = typename L::Vec;

  const scalar_t* grad_output;
  const scalar_t* x;
  const scalar_t* weight;
  const Wide* mean;
  const Wide* inverse;
  Wide* weight_sums;
  Wide* bias_sums;
  int64_t features;

  // Adds the row to the sums; returns the sums of grad_output * weight and of grad_output * weight * z.
  std::array<Wide, 2> add(int64_t row) const {
    Wide* to_weight = weight_sums ? autofn::own_sums(weight_sums, features) : nullptr;
    Wide* to_bias = bias_sums ? autofn::own_sums(bias_sums, features) : nullptr;
    const auto found = autofn::sums_of_lanes<scalar_t, 2>(
        features, [=, g = grad_output + row * features, v = x + row * features, w = weight, shift = Vec(mean[row]),
                   r = Vec(inverse[row])](int64_t i, int64_t n) {
          const Vec grad = L::load(g + i, n), z = (L::load(v + i, n) - shift) * r;
          if (to_weight) L::store_wide(L::load_wide(to_weight + i, n) + grad * z, to_weight + i, n);
          if (to_bias) L::store_wide(L::load_wide(to_bias + i, n) + grad, to_bias + i, n);
          const Vec scaled = w ? grad * L::load(w + i, n) : grad;
          return std::array{scaled, scaled * z};
        });
    for (Wide* own : {to_weight, to_bias}) {
      if (own) autofn::carry<scalar_t>(own, features, row + 1);
    }
    return found;
  }

  // grad_x = r * s - (x - mean) * r^2 * mean(s * z) - r * mean(s), with s = grad_output * weight.
  template <bool kStream>
  void write_grad_x(autofn::OutputRow<scalar_t, kStream> grad_x, int64_t row) const {
    const auto [sum, dot] = add(row);
    const Wide r = inverse[row];
    const Vec scale(r), along_x(r * r * (dot / features)), shift(mean[row]), offset(r * (sum / features));
    grad_x.write([=, g = grad_output + row * features, v = x + row * features, w = weight](int64_t i, int64_t n) {
      const Vec scaled = L::load(g + i, n) * L::load(w + i, n);
      return scale * scaled - (L::load(v + i, n) - shift) * along_x - offset;
    });
  }
};

// grad_x where weight is given, the others where they are needed; x is given unless grad_bias alone is.
Triple backward_cpu(
    const Tensor& grad_output_in,
    const OptionalTensor& x_in,
    const OptionalTensor& weight_in,
    const OptionalTensor& mean,
    const OptionalTensor& inverse,
    bool needs_weight,
    bool needs_bias) {
  const Tensor grad_output = grad_output_in.contiguous();
  if (!x_in) return {Tensor(), Tensor(), autofn::column_sum(autofn::layer_norm::rows_of(grad_output))};
  const Tensor x = x_in->contiguous(), weight = weight_in ? weight_in->contiguous() : Tensor();
  const int64_t features = x.size(-1);
  const auto sums = [&](bool needed) { return needed ? autofn::partial_sums(x, features) : Tensor(); };
  const auto total = [&](const Tensor& of) { return of.defined() ? autofn::total(of, x.scalar_type()) : Tensor(); };
  Tensor grad_x = weight_in ? at::empty_like(x) : Tensor();
  Tensor weight_sums = sums(needs_weight), bias_sums = sums(needs_bias);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "layer_norm_backward_cpu", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const Gradients<scalar_t> gradients{
        grad_output.const_data_ptr<scalar_t>(),
        x.const_data_ptr<scalar_t>(),
        weight_in ? weight.const_data_ptr<scalar_t>() : nullptr,
        mean->const_data_ptr<Wide>(),
        inverse->const_data_ptr<Wide>(),
        needs_weight ? weight_sums.mutable_data_ptr<Wide>() : nullptr,
        needs_bias ? bias_sums.mutable_data_ptr<Wide>() : nullptr,
        features};
    if (weight_in) {
      autofn::write_rows<scalar_t>(grad_x, [&](auto out, int64_t row) { gradients.write_grad_x(out, row); });
    } else {
      at::parallel_for(0, inverse->numel(), autofn::row_grain(features), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) gradients.add(row);
      });
    }
  });
  return {grad_x, total(weight_sums), total(bias_sums)};
}

Triple forward_meta(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_inputs(x, weight, bias, eps);
  return {at::empty_like(x, at::MemoryFormat::Contiguous), empty_row_numbers(x), empty_row_numbers(x)};
}

Triple backward_meta(
    const Tensor& grad_output,
    const OptionalTensor& x,
    const OptionalTensor& weight,
    const OptionalTensor& mean,
    const OptionalTensor& inverse,
    bool needs_weight,
    bool needs_bias) {
  const auto row = [&](bool needed) {
    return needed ? at::empty_symint({grad_output.sym_size(-1)}, grad_output.options()) : Tensor();
  };
  Tensor grad_x = weight ? at::empty_like(grad_output, at::MemoryFormat::Contiguous) : Tensor();
  return {grad_x, row(needs_weight), row(needs_bias)};
}

Triple call_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  static const auto op = autofn::find<decltype(forward_cpu)>("autofn::layer_norm_forward");
  return op.call(x, weight, bias, eps);
}

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [y, mean, inverse] = call_forward(x, weight, bias, eps);
    const bool needs_row = x.requires_grad() || weight.requires_grad();
    const auto kept = [](bool needed, const Tensor& tensor) { return needed ? tensor : Tensor(); };
    ctx->save_for_backward(
        {kept(needs_row, x), kept(x.requires_grad(), weight), kept(needs_row, mean), kept(needs_row, inverse)});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::layer_norm_backward");
    const auto saved = ctx->get_saved_variables();
    const bool needs_x = ctx->needs_input_grad(0), needs_weight = ctx->needs_input_grad(1);
    const auto given = [&](bool needed, int64_t i) { return needed ? OptionalTensor(saved[i]) : std::nullopt; };
    const bool needs_row = needs_x || needs_weight;
    const auto [grad_x, grad_weight, grad_bias] = op.call(
        grad_outputs[0], given(needs_row, 0), given(needs_x, 1), given(needs_row, 2), given(needs_row, 3), needs_weight,
        ctx->needs_input_grad(2));
    return {grad_x, grad_weight, grad_bias, Tensor()};
  }
};

Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return std::get<0>(call_forward(x, weight, bias, eps));
}

Tensor forward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return LayerNorm::apply(x, weight, bias, eps);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("layer_norm(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor");
  m.def(
      "layer_norm_forward(Tensor x, Tensor weight, Tensor bias, float eps) -> (Tensor y, Tensor mean, Tensor inverse)");
  m.def(
      "layer_norm_backward(Tensor grad_output, Tensor? x, Tensor? weight, Tensor? mean, Tensor? inverse, "
      "bool needs_weight, bool needs_bias) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) { m.impl("layer_norm", &forward); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("layer_norm_forward", &forward_cpu);
  m.impl("layer_norm_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("layer_norm_forward", &forward_meta);
  m.impl("layer_norm_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("layer_norm", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "layer_norm_backward");
}

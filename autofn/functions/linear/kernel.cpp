// The linear layer: ATen's matrix products, and on the CPU a sum of its own for the bias. The formula and what is
// saved: see __init__.py.
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/columns.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

void check_dtype(const Tensor& input, const Tensor& other, const char* name) {
  TORCH_CHECK_VALUE(
      other.scalar_type() == input.scalar_type(), "linear: dtypes must be equal, got input ", input.scalar_type(),
      " and ", name, " ", other.scalar_type());
}

void check_inputs(const Tensor& input, const Tensor& weight, const OptionalTensor& bias) {
  TORCH_CHECK_VALUE(
      input.is_floating_point(), "linear: input must hold floating point numbers, got ", input.scalar_type());
  TORCH_CHECK_VALUE(input.dim() > 0, "linear: input must have at least one dimension, got a scalar");
  const auto in_features = input.sym_size(-1);
  TORCH_CHECK_VALUE(
      weight.dim() == 2 && weight.sym_size(1) == in_features, "linear: weight must have shape [*, ", in_features,
      "], got ", weight.sym_sizes());
  check_dtype(input, weight, "weight");
  if (!bias) return;
  TORCH_CHECK_VALUE(
      bias->dim() == 1 && bias->sym_size(0) == weight.sym_size(0), "linear: bias must have shape [", weight.sym_size(0),
      "], got ", bias->sym_sizes());
  check_dtype(input, *bias, "bias");
}

// All leading dimensions as one: (rows, features).
Tensor rows_of(const Tensor& tensor) {
  const auto sizes = tensor.sym_sizes();
  c10::SymInt rows = 1;
  for (const auto& size : sizes.slice(0, sizes.size() - 1)) rows = rows * size;
  return tensor.reshape_symint({rows, sizes.back()});
}

// The shape of `like` with another last dimension.
Tensor shaped_like(const Tensor& rows, const Tensor& like) {
  auto sizes = like.sym_sizes().vec();
  sizes.back() = rows.sym_size(1);
  return rows.view_symint(sizes);
}

Tensor forward(const Tensor& input, const Tensor& weight, const OptionalTensor& bias) {
  check_inputs(input, weight, bias);
  const Tensor rows = rows_of(input);
  return shaped_like(bias ? at::addmm(*bias, rows, weight.t()) : at::mm(rows, weight.t()), input);
}

Tensor bias_gradient_cpu(const Tensor& rows) { return autofn::column_sum(rows.contiguous()); }

Tensor bias_gradient_meta(const Tensor& rows) { return at::empty_symint({rows.sym_size(1)}, rows.options()); }

// grad_input where weight is given, grad_weight where input is given, grad_bias where it is needed.
Gradients backward(
    const Tensor& grad_output, const OptionalTensor& input, const OptionalTensor& weight, bool needs_bias) {
  static const auto bias_gradient = autofn::find<decltype(bias_gradient_cpu)>("autofn::linear_bias_gradient");
  const Tensor rows = rows_of(grad_output);
  Tensor grad_input, grad_weight, grad_bias;
  if (weight) grad_input = shaped_like(at::mm(rows, *weight), grad_output);
  if (input) grad_weight = at::mm(rows.t(), rows_of(*input));
  if (needs_bias) grad_bias = bias_gradient.call(rows);
  return {grad_input, grad_weight, grad_bias};
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx, const Tensor& input, const Tensor& weight, const OptionalTensor& bias) {
    static const auto op = autofn::find<decltype(::forward)>("autofn::linear");
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({weight.requires_grad() ? input : Tensor(), input.requires_grad() ? weight : Tensor()});
    ctx->saved_data["has_bias"] = bias.has_value();
    return op.call(input, weight, bias);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(::backward)>("autofn::linear_backward");
    const auto saved = ctx->get_saved_variables();
    const auto given = [](const Tensor& tensor, bool needed) { return needed ? OptionalTensor(tensor) : std::nullopt; };
    const bool needs_bias = ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2);
    const auto [grad_input, grad_weight, grad_bias] = op.call(
        grad_outputs[0], given(saved[0], ctx->needs_input_grad(1)), given(saved[1], ctx->needs_input_grad(0)),
        needs_bias);
    return {grad_input, grad_weight, grad_bias};
  }
};

Tensor forward_autograd(const Tensor& input, const Tensor& weight, const OptionalTensor& bias) {
  return Linear::apply(input, weight, bias);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor");
  m.def(
      "linear_backward(Tensor grad_output, Tensor? input, Tensor? weight, bool needs_bias) -> (Tensor, Tensor, "
      "Tensor)");
  m.def("linear_bias_gradient(Tensor rows) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) {
  m.impl("linear", &forward);
  m.impl("linear_backward", &backward);
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) { m.impl("linear_bias_gradient", &bias_gradient_cpu); }
TORCH_LIBRARY_IMPL(autofn, Meta, m) { m.impl("linear_bias_gradient", &bias_gradient_meta); }
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("linear", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "linear_backward");
}

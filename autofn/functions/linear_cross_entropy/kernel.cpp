// Linear cross entropy: the part between the products on the CPU, autograd nodes, registration. The formula, the two
// ways and what is saved: see __init__.py; the passes: passes.h.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "inputs.h"
#include "passes.h"
#include "softmax_row.h"

namespace {

using namespace autofn::linear_cross_entropy;

Tensor logsumexp_cpu(const Tensor& logits) {
  const int64_t rows = logits.size(0), words = logits.size(1);
  Tensor out = at::empty({rows}, logits.options().dtype(wide(logits)));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "linear_cross_entropy_cpu", [&] {
    auto* to = out.mutable_data_ptr<at::opmath_type<scalar_t>>();
    const auto* x = logits.const_data_ptr<scalar_t>();
    autofn::for_rows(rows, words, [&](int64_t row) { to[row] = logsumexp_row(x + row * words, words); });
  });
  return out;
}

void gradient_cpu(const Tensor& logits, const Tensor& target, const Tensor& logsumexp, const Tensor& factors) {
  const int64_t rows = logits.size(0), words = logits.size(1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "linear_cross_entropy_cpu", [&] {
    using Wide = at::opmath_type<scalar_t>;
    auto* x = logits.mutable_data_ptr<scalar_t>();
    const auto* word = target.const_data_ptr<int64_t>();
    const auto *sums = logsumexp.const_data_ptr<Wide>(), *factor = factors.const_data_ptr<Wide>();
    autofn::for_rows(
        rows, words, [&](int64_t row) { gradient_row(x + row * words, words, word[row], sums[row], factor[row]); });
  });
}

Tensor empty_gradient(const Tensor& like, bool needed) {
  return needed ? at::empty_like(like, at::MemoryFormat::Contiguous) : Tensor();
}

Gradients forward_meta(
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction,
    bool needs_hidden,
    bool needs_weight) {
  check_inputs(hidden, weight, target, {ignore_index, reduction});
  return {at::empty({}, hidden.options()), empty_gradient(hidden, needs_hidden), empty_gradient(weight, needs_weight)};
}

Pair recompute_forward_meta(
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction) {
  check_inputs(hidden, weight, target, {ignore_index, reduction});
  return {
      at::empty({}, hidden.options()), at::empty_symint({hidden.sym_size(0)}, hidden.options().dtype(wide(hidden)))};
}

Pair recompute_backward_meta(
    const Tensor& grad_output,
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    const Tensor& logsumexp,
    int64_t ignore_index,
    std::string_view reduction,
    bool needs_hidden,
    bool needs_weight) {
  return {empty_gradient(hidden, needs_hidden), empty_gradient(weight, needs_weight)};
}

OptionalTensor given(const Tensor& tensor, bool needed) { return needed ? OptionalTensor(tensor) : std::nullopt; }

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx,
      const Tensor& hidden,
      const Tensor& weight,
      const Tensor& target,
      int64_t ignore_index,
      std::string_view reduction,
      bool recorded) {
    static const auto op =
        autofn::find<decltype(autofn::linear_cross_entropy::forward)>("autofn::linear_cross_entropy_forward");
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [loss, grad_hidden, grad_weight] = op.call(
        hidden, weight, target, ignore_index, reduction, recorded && hidden.requires_grad(),
        recorded && weight.requires_grad());
    ctx->save_for_backward({hidden, weight, grad_hidden, grad_weight});
    return loss;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op =
        autofn::find<decltype(autofn::linear_cross_entropy::backward)>("autofn::linear_cross_entropy_backward");
    const auto saved = ctx->get_saved_variables();
    const auto [grad_hidden, grad_weight] = op.call(
        grad_outputs[0], saved[0], saved[1], given(saved[2], ctx->needs_input_grad(0)),
        given(saved[3], ctx->needs_input_grad(1)));
    return {grad_hidden, grad_weight, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx,
      const Tensor& hidden,
      const Tensor& weight,
      const Tensor& target,
      int64_t ignore_index,
      std::string_view reduction) {
    static const auto op = autofn::find<decltype(recompute_forward)>("autofn::linear_cross_entropy_recompute_forward");
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [loss, logsumexp] = op.call(hidden, weight, target, ignore_index, reduction);
    ctx->save_for_backward({hidden, weight, target, logsumexp});
    ctx->saved_data["ignore_index"] = ignore_index;
    ctx->saved_data["reduction"] = std::string(reduction);
    return loss;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op =
        autofn::find<decltype(recompute_backward)>("autofn::linear_cross_entropy_backward_recompute");
    const auto saved = ctx->get_saved_variables();
    const auto [grad_hidden, grad_weight] = op.call(
        grad_outputs[0], saved[0], saved[1], saved[2], saved[3], ctx->saved_data["ignore_index"].toInt(),
        ctx->saved_data["reduction"].toStringView(), ctx->needs_input_grad(0), ctx->needs_input_grad(1));
    return {grad_hidden, grad_weight, Tensor(), Tensor(), Tensor()};
  }
};

Tensor loss(
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction) {
  static const auto op = autofn::find<decltype(forward)>("autofn::linear_cross_entropy_forward");
  return std::get<0>(op.call(hidden, weight, target, ignore_index, reduction, false, false));
}

Tensor recompute_loss(
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction) {
  static const auto op = autofn::find<decltype(recompute_forward)>("autofn::linear_cross_entropy_recompute_forward");
  return std::get<0>(op.call(hidden, weight, target, ignore_index, reduction));
}

Tensor loss_autograd(
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction) {
  return LinearCrossEntropy::apply(hidden, weight, target, ignore_index, reduction, at::GradMode::is_enabled());
}

Tensor recompute_autograd(
    const Tensor& hidden,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction) {
  return Recompute::apply(hidden, weight, target, ignore_index, reduction);
}

}  // namespace

#define ARGUMENTS "Tensor hidden, Tensor weight, Tensor target, int ignore_index=-100, str reduction='mean'"

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("linear_cross_entropy(" ARGUMENTS ") -> Tensor");
  m.def("linear_cross_entropy_recompute(" ARGUMENTS ") -> Tensor");
  m.def(
      "linear_cross_entropy_forward(Tensor hidden, Tensor weight, Tensor target, int ignore_index, str reduction, bool "
      "needs_hidden, bool needs_weight) -> (Tensor loss, Tensor grad_hidden, Tensor grad_weight)");
  m.def(
      "linear_cross_entropy_backward(Tensor grad_output, Tensor hidden, Tensor weight, Tensor? grad_hidden, Tensor? "
      "grad_weight) -> (Tensor, Tensor)");
  m.def(
      "linear_cross_entropy_recompute_forward(Tensor hidden, Tensor weight, Tensor target, int ignore_index, str "
      "reduction) -> (Tensor loss, Tensor logsumexp)");
  m.def(
      "linear_cross_entropy_backward_recompute(Tensor grad_output, Tensor hidden, Tensor weight, Tensor target, Tensor "
      "logsumexp, int ignore_index, str reduction, bool needs_hidden, bool needs_weight) -> (Tensor, Tensor)");
  m.def("linear_cross_entropy_logsumexp(Tensor logits) -> Tensor");
  m.def("linear_cross_entropy_gradient_(Tensor(a!) logits, Tensor target, Tensor logsumexp, Tensor factors) -> ()");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", &loss);
  m.impl("linear_cross_entropy_recompute", &recompute_loss);
  m.impl("linear_cross_entropy_forward", &forward);
  m.impl("linear_cross_entropy_backward", &backward);
  m.impl("linear_cross_entropy_recompute_forward", &recompute_forward);
  m.impl("linear_cross_entropy_backward_recompute", &recompute_backward);
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("linear_cross_entropy_logsumexp", &logsumexp_cpu);
  m.impl("linear_cross_entropy_gradient_", &gradient_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("linear_cross_entropy_forward", &forward_meta);
  m.impl("linear_cross_entropy_recompute_forward", &recompute_forward_meta);
  m.impl("linear_cross_entropy_backward_recompute", &recompute_backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("linear_cross_entropy", &loss_autograd);
  m.impl("linear_cross_entropy_recompute", &recompute_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "linear_cross_entropy_backward");
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "linear_cross_entropy_backward_recompute");
}

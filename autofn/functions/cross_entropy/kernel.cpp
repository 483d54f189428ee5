// Cross entropy on the CPU. The formula and what is saved: see __init__.py.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "inputs.h"
#include "row.h"

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
using autofn::cross_entropy::check_inputs;
using autofn::cross_entropy::is_mean;
using autofn::cross_entropy::is_none;
using autofn::cross_entropy::logsumexp_of;
using autofn::cross_entropy::Smoothing;

// The sum of the weights of all targets that are not ignored. Raises IndexError for one that is no class.
double total_weight(const Tensor& target, const OptionalTensor& weight, int64_t classes, int64_t ignore_index) {
  const auto* t = target.const_data_ptr<int64_t>();
  double total = 0;
  const auto add = [&](auto weight_of) {
    for (int64_t row = 0; row < target.numel(); ++row) {
      if (t[row] == ignore_index) continue;
      TORCH_CHECK_INDEX(
          t[row] >= 0 && t[row] < classes, "cross_entropy: target must be below ", classes, " or ignore_index ",
          ignore_index, ", got ", t[row], " in row ", row);
      total += weight_of(t[row]);
    }
  };
  if (!weight) {
    add([](int64_t) { return 1; });
    return total;
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, weight->scalar_type(), "cross_entropy_weight", [&] {
    const auto* w = weight->const_data_ptr<scalar_t>();
    add([w](int64_t target) { return static_cast<double>(w[target]); });
  });
  return total;
}

OptionalTensor contiguous(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(tensor->contiguous()) : std::nullopt;
}

Tensor empty_numbers(const Tensor& logits) {
  return at::empty_symint({logits.sym_size(0)}, logits.options().dtype(at::toOpMathType(logits.scalar_type())));
}

Pair forward_cpu(
    const Tensor& logits_in,
    const Tensor& target_in,
    const OptionalTensor& weight_in,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  check_inputs(logits_in, target_in, weight_in, reduction, label_smoothing);
  const Tensor logits = logits_in.contiguous(), target = target_in.contiguous();
  const OptionalTensor weight = contiguous(weight_in);
  const int64_t rows = logits.size(0), classes = logits.size(1);
  const double total = total_weight(target, weight, classes, ignore_index);
  Tensor losses = empty_numbers(logits), logsumexp = empty_numbers(logits);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy_forward_cpu", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const Smoothing<scalar_t> smoothing(weight, classes, label_smoothing);
    auto* loss = losses.mutable_data_ptr<Wide>();
    auto* lse = logsumexp.mutable_data_ptr<Wide>();
    const auto* x = logits.const_data_ptr<scalar_t>();
    const auto* t = target.const_data_ptr<int64_t>();
    autofn::for_rows(rows, classes, [&](int64_t row) {
      const auto* from = x + row * classes;
      lse[row] = logsumexp_of(from, classes);
      loss[row] = t[row] == ignore_index ? 0 : smoothing.loss(from, t[row], lse[row]);
    });
  });
  if (is_none(reduction)) return {losses.to(logits.scalar_type()), logsumexp};
  const Tensor sum = at::sum(losses);
  return {(is_mean(reduction) ? sum.div(total) : sum).to(logits.scalar_type()), logsumexp};
}

Tensor backward_cpu(
    const Tensor& grad_output_in,
    const Tensor& logits_in,
    const Tensor& target_in,
    const OptionalTensor& weight_in,
    const Tensor& logsumexp,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  const Tensor grad_output = grad_output_in.contiguous(), logits = logits_in.contiguous();
  const Tensor target = target_in.contiguous();
  const OptionalTensor weight = contiguous(weight_in);
  const int64_t classes = logits.size(1), step = is_none(reduction) ? 1 : 0;
  const double total = total_weight(target, weight, classes, ignore_index);
  Tensor grad_logits = at::empty_like(logits);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy_backward_cpu", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const Smoothing<scalar_t> smoothing(weight, classes, label_smoothing);
    const Wide divisor = is_mean(reduction) ? total : 1;
    const auto* g = grad_output.const_data_ptr<scalar_t>();
    const auto* lse = logsumexp.const_data_ptr<Wide>();
    const auto* x = logits.const_data_ptr<scalar_t>();
    const auto* t = target.const_data_ptr<int64_t>();
    autofn::write_rows<scalar_t>(grad_logits, [&](auto out, int64_t row) {
      if (t[row] == ignore_index) {
        out.write([](int64_t, int64_t) { return typename autofn::Lanes<scalar_t>::Vec(0); });
      } else {
        const Wide grad = static_cast<Wide>(g[row * step]) / divisor;
        smoothing.write_gradient(out, x + row * classes, t[row], lse[row], grad);
      }
    });
  });
  return grad_logits;
}

Pair forward_meta(
    const Tensor& logits,
    const Tensor& target,
    const OptionalTensor& weight,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  check_inputs(logits, target, weight, reduction, label_smoothing);
  const c10::SymInt rows = logits.sym_size(0);
  const auto none = c10::SymIntArrayRef(&rows, is_none(reduction) ? 1 : 0);
  return {at::empty_symint(none, logits.options()), empty_numbers(logits)};
}

Tensor backward_meta(
    const Tensor& grad_output,
    const Tensor& logits,
    const Tensor& target,
    const OptionalTensor& weight,
    const Tensor& logsumexp,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  return at::empty_like(logits, at::MemoryFormat::Contiguous);
}

Pair call_forward(
    const Tensor& logits,
    const Tensor& target,
    const OptionalTensor& weight,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  static const auto op = autofn::find<decltype(forward_cpu)>("autofn::cross_entropy_forward");
  return op.call(logits, target, weight, ignore_index, reduction, label_smoothing);
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx,
      const Tensor& logits,
      const Tensor& target,
      const OptionalTensor& weight,
      int64_t ignore_index,
      std::string_view reduction,
      double label_smoothing) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [loss, logsumexp] = call_forward(logits, target, weight, ignore_index, reduction, label_smoothing);
    ctx->save_for_backward({logits, target, weight.value_or(Tensor()), logsumexp});
    ctx->saved_data["ignore_index"] = ignore_index;
    ctx->saved_data["reduction"] = std::string(reduction);
    ctx->saved_data["label_smoothing"] = label_smoothing;
    return loss;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::cross_entropy_backward");
    const auto saved = ctx->get_saved_variables();
    const auto weight = saved[2].defined() ? OptionalTensor(saved[2]) : std::nullopt;
    const Tensor grad_logits = op.call(
        grad_outputs[0], saved[0], saved[1], weight, saved[3], ctx->saved_data["ignore_index"].toInt(),
        ctx->saved_data["reduction"].toStringRef(), ctx->saved_data["label_smoothing"].toDouble());
    return {grad_logits, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor forward(
    const Tensor& logits,
    const Tensor& target,
    const OptionalTensor& weight,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  return std::get<0>(call_forward(logits, target, weight, ignore_index, reduction, label_smoothing));
}

Tensor forward_autograd(
    const Tensor& logits,
    const Tensor& target,
    const OptionalTensor& weight,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  TORCH_CHECK_VALUE(
      !(at::GradMode::is_enabled() && weight && weight->requires_grad()),
      "cross_entropy: weight must not require grad, for it is given none");
  return CrossEntropy::apply(logits, target, weight, ignore_index, reduction, label_smoothing);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def(
      "cross_entropy(Tensor logits, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction=\"mean\", "
      "float label_smoothing=0.0) -> Tensor");
  m.def(
      "cross_entropy_forward(Tensor logits, Tensor target, Tensor? weight, int ignore_index, str reduction, "
      "float label_smoothing) -> (Tensor loss, Tensor logsumexp)");
  m.def(
      "cross_entropy_backward(Tensor grad_output, Tensor logits, Tensor target, Tensor? weight, Tensor logsumexp, "
      "int ignore_index, str reduction, float label_smoothing) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) { m.impl("cross_entropy", &forward); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("cross_entropy_forward", &forward_cpu);
  m.impl("cross_entropy_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("cross_entropy_forward", &forward_meta);
  m.impl("cross_entropy_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("cross_entropy", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "cross_entropy_backward");
}

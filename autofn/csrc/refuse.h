// Double backward of an operator whose backward is a kernel: an error, raised only by real use.
//
// Registered for the Autograd key of the backward operator. Running it under create_graph costs a node; differentiating
// what it returned raises NotImplementedError. A check of the grad mode would also refuse a harmless create_graph.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace autofn {

class Refusal : public torch::autograd::Function<Refusal> {
 public:
  // Hands the gradients on, as outputs of a node that depends on all of `sources`.
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* ctx,
      const std::string& who,
      const torch::autograd::variable_list& grads,
      at::TensorList sources) {
    ctx->saved_data["who"] = who;
    torch::autograd::variable_list out;
    for (const auto& grad : grads) out.push_back(grad.detach());
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list&) {
    C10_THROW_ERROR(
        NotImplementedError,
        ctx->saved_data["who"].toStringRef() +
            ": double backward is not implemented; use the python variant, which is differentiable twice");
  }
};

// "autofn::swiglu_backward" -> "swiglu (cpp)"
inline std::string who(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  const auto begin = name.find("::") + 2;
  return name.substr(begin, name.rfind("_backward") - begin) + " (cpp)";
}

// Boxed: serves every backward operator, whatever its signature.
inline void refuse_double_backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  std::vector<at::Tensor> sources;
  for (const auto& input : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (input.isTensor() && input.toTensor().defined() && input.toTensor().requires_grad())
      sources.push_back(input.toTensor());
  }
  {
    at::AutoDispatchBelowADInplaceOrView guard;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  if (!at::GradMode::is_enabled() || sources.empty()) return;
  auto outputs = torch::jit::pop(*stack, op.schema().returns().size());
  torch::autograd::variable_list grads;
  for (const auto& output : outputs) {
    if (output.isTensor() && output.toTensor().defined()) grads.push_back(output.toTensor());
  }
  auto linked = Refusal::apply(who(op), grads, at::TensorList(sources));
  auto next = linked.begin();
  for (auto& output : outputs) {
    if (output.isTensor() && output.toTensor().defined()) output = *next++;
    stack->push_back(std::move(output));
  }
}

}  // namespace autofn

// AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "swiglu_backward") inside TORCH_LIBRARY_IMPL(autofn, Autograd, m).
#define AUTOFN_REFUSE_DOUBLE_BACKWARD(m, name) \
  m.impl(name, torch::CppFunction::makeFromBoxedFunction<&autofn::refuse_double_backward>())

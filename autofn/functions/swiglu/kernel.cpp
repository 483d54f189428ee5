// The SwiGLU gate on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/require.h"
#include "../../csrc/sigmoid.h"

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

// gate * sigmoid(gate), and its derivative.
template <typename Vec>
struct Silu {
  explicit Silu(const Vec& gate) : gate(gate), s(gate), value(gate * s.value) {}
  Vec slope() const { return s.value + gate * s.slope(); }

  Vec gate;
  autofn::Sigmoid<Vec> s;
  Vec value;
};

Tensor forward_cpu(const Tensor& gate_in, const Tensor& up_in) {
  autofn::check_equal("swiglu", "gate", gate_in, "up", up_in);
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  Tensor y = at::empty_like(gate);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "swiglu_forward_cpu", [&] {
    autofn::map<scalar_t>(y, [](auto g, auto u) { return Silu(g).value * u; }, gate, up);
  });
  return y;
}

// grad_gate where up is given, grad_up where it is needed.
Pair backward_cpu(const Tensor& grad_output_in, const Tensor& gate_in, const OptionalTensor& up_in, bool needs_up) {
  const Tensor grad_output = grad_output_in.contiguous(), gate = gate_in.contiguous();
  const Tensor up = up_in ? up_in->contiguous() : Tensor();
  const Tensor grad_gate = up_in ? at::empty_like(gate) : Tensor(),
               grad_up = needs_up ? at::empty_like(gate) : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "swiglu_backward_cpu", [&] {
    if (up_in && needs_up) {
      const auto both = [](auto grad, auto g, auto u) {
        const Silu silu(g);
        return std::array{grad * u * silu.slope(), grad * silu.value};
      };
      autofn::map_to<scalar_t, 2>({grad_gate, grad_up}, both, grad_output, gate, up);
    } else if (up_in) {
      autofn::map<scalar_t>(
          grad_gate, [](auto grad, auto g, auto u) { return grad * u * Silu(g).slope(); }, grad_output, gate, up);
    } else if (needs_up) {
      autofn::map<scalar_t>(grad_up, [](auto grad, auto g) { return grad * Silu(g).value; }, grad_output, gate);
    }
  });
  return {grad_gate, grad_up};
}

Tensor forward_meta(const Tensor& gate, const Tensor& up) {
  autofn::check_equal("swiglu", "gate", gate, "up", up);
  return at::empty_like(gate, at::MemoryFormat::Contiguous);
}

Pair backward_meta(const Tensor& grad_output, const Tensor& gate, const OptionalTensor& up, bool needs_up) {
  const auto empty = [&] { return at::empty_like(gate, at::MemoryFormat::Contiguous); };
  return {up ? empty() : Tensor(), needs_up ? empty() : Tensor()};
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    static const auto op = autofn::find<decltype(forward_cpu)>("autofn::swiglu");
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({gate, gate.requires_grad() ? up : Tensor()});
    return op.call(gate, up);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::swiglu_backward");
    const auto saved = ctx->get_saved_variables();
    const auto up = ctx->needs_input_grad(0) ? OptionalTensor(saved[1]) : std::nullopt;
    const auto [grad_gate, grad_up] = op.call(grad_outputs[0], saved[0], up, ctx->needs_input_grad(1));
    return {grad_gate, grad_up};
  }
};

Tensor forward_autograd(const Tensor& gate, const Tensor& up) { return Swiglu::apply(gate, up); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad_output, Tensor gate, Tensor? up, bool needs_up) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("swiglu", &forward_cpu);
  m.impl("swiglu_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("swiglu", &forward_meta);
  m.impl("swiglu_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("swiglu", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "swiglu_backward");
}

// The GEGLU gate on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <string>

#include "../../csrc/elementwise.h"
#include "../../csrc/exponential.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "../../csrc/sigmoid.h"
#include "inputs.h"

namespace {

using at::Tensor;
using at::vec::Vectorized;
using autofn::geglu::check_inputs;
using autofn::geglu::kFar;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

// Both keep NaN, in fewer instructions than at::vec::maximum.
template <typename Vec>
Vec at_least(double low, const Vec& x) {
  return at::vec::clamp_min(x, Vec(low));
}

template <typename Vec>
Vec cut_off(const Vec& x) {
  return at::vec::clamp(x, Vec(-kFar), Vec(kFar));
}

// The cumulative distribution of the standard normal, from its density at x.
//
// In float it is density * t * (a polynomial in t = 1 / (1 + 0.35 * |x|)) on the side below 0, a minimax fit of Mills'
// ratio with a relative error of 3.2e-8, and of 3.4e-7 with the roundings of float; erf of at::vec is off by 1.5e-7 and
// so by all of the tail, and takes a second exponential.
Vectorized<float> cumulative(const Vectorized<float>& x, const Vectorized<float>& density) {
  using Vec = Vectorized<float>;
  constexpr float kMills[] = {0.36088607f, -0.64098573f, 0.39899629f, -0.057931732f,
                              0.26447099f, 0.30037606f,  0.35058177f, 0.34997895f};
  const Vec t = Vec(1) / fmadd(Vec(0.35f), x.abs(), Vec(1));
  Vec ratio(-0.073058538f);
  for (const float coefficient : kMills) ratio = fmadd(ratio, t, Vec(coefficient));
  const Vec tail = density * t * ratio;
  return Vec::blendv(Vec(1) - tail, tail, x < Vec(0));
}

Vectorized<double> cumulative(const Vectorized<double>& x, const Vectorized<double>&) {
  return Vectorized<double>(0.5) * (x * Vectorized<double>(-std::sqrt(0.5))).erfc();
}

// gate * Phi(gate), and its derivative.
template <typename Vec>
struct Exact {
  explicit Exact(const Vec& gate)
      : x(cut_off(gate)),
        density(autofn::exp_of_negative(x * x * Vec(-0.5)) * Vec(1 / std::sqrt(2 * M_PI))),
        p(cumulative(x, density)),
        value(at_least(-kFar, gate) * p) {}
  Vec slope() const { return p + x * density; }

  Vec x, density, p, value;
};

// gate * sigmoid(2 * u), and its derivative.
template <typename Vec>
struct Tanh {
  explicit Tanh(const Vec& gate)
      : x(cut_off(gate)),
        square(x * x),
        s(Vec(kScale) * x * (Vec(1) + Vec(kCube) * square)),
        value(at_least(-kFar, gate) * s.value) {}
  Vec slope() const { return s.value + x * (Vec(kScale) + Vec(3 * kScale * kCube) * square) * s.slope(); }

  // 2 * u = kScale * (x + kCube * x**3)
  static constexpr double kScale = 2 * M_2_SQRTPI * M_SQRT1_2, kCube = 0.044715;
  Vec x, square;
  autofn::Sigmoid<Vec> s;
  Vec value;
};

template <template <typename> typename Activation, typename scalar_t>
void write_output(const Tensor& y, const Tensor& gate, const Tensor& up) {
  autofn::map<scalar_t>(y, [](auto g, auto u) { return Activation<decltype(g)>(g).value * u; }, gate, up);
}

// One that is not defined is not written.
template <template <typename> typename Activation, typename scalar_t>
void write_gradients(
    const Tensor& grad_gate, const Tensor& grad_up, const Tensor& grad_output, const Tensor& gate, const Tensor& up) {
  if (grad_gate.defined() && grad_up.defined()) {
    const auto both = [](auto grad, auto g, auto u) {
      const Activation<decltype(g)> gelu(g);
      return std::array{grad * u * gelu.slope(), grad * gelu.value};
    };
    autofn::map_to<scalar_t, 2>({grad_gate, grad_up}, both, grad_output, gate, up);
  } else if (grad_gate.defined()) {
    const auto first = [](auto grad, auto g, auto u) { return grad * u * Activation<decltype(g)>(g).slope(); };
    autofn::map<scalar_t>(grad_gate, first, grad_output, gate, up);
  } else if (grad_up.defined()) {
    const auto second = [](auto grad, auto g) { return grad * Activation<decltype(g)>(g).value; };
    autofn::map<scalar_t>(grad_up, second, grad_output, gate);
  }
}

Tensor forward_cpu(const Tensor& gate_in, const Tensor& up_in, std::string_view approximate) {
  check_inputs(gate_in, up_in, approximate);
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  Tensor y = at::empty_like(gate);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "geglu_forward_cpu", [&] {
    (approximate == "none" ? write_output<Exact, scalar_t> : write_output<Tanh, scalar_t>)(y, gate, up);
  });
  return y;
}

// grad_gate where up is given, grad_up where it is needed.
Pair backward_cpu(
    const Tensor& grad_output_in,
    const Tensor& gate_in,
    const OptionalTensor& up_in,
    std::string_view approximate,
    bool needs_up) {
  const Tensor grad_output = grad_output_in.contiguous(), gate = gate_in.contiguous();
  const Tensor up = up_in ? up_in->contiguous() : Tensor();
  const Tensor grad_gate = up_in ? at::empty_like(gate) : Tensor(),
               grad_up = needs_up ? at::empty_like(gate) : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "geglu_backward_cpu", [&] {
    (approximate == "none" ? write_gradients<Exact, scalar_t> : write_gradients<Tanh, scalar_t>)(grad_gate, grad_up,
                                                                                                 grad_output, gate, up);
  });
  return {grad_gate, grad_up};
}

Tensor forward_meta(const Tensor& gate, const Tensor& up, std::string_view approximate) {
  check_inputs(gate, up, approximate);
  return at::empty_like(gate, at::MemoryFormat::Contiguous);
}

Pair backward_meta(
    const Tensor& grad_output,
    const Tensor& gate,
    const OptionalTensor& up,
    std::string_view approximate,
    bool needs_up) {
  const auto empty = [&] { return at::empty_like(gate, at::MemoryFormat::Contiguous); };
  return {up ? empty() : Tensor(), needs_up ? empty() : Tensor()};
}

class Geglu : public torch::autograd::Function<Geglu> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx, const Tensor& gate, const Tensor& up, std::string_view approximate) {
    static const auto op = autofn::find<decltype(forward_cpu)>("autofn::geglu");
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({gate, gate.requires_grad() ? up : Tensor()});
    ctx->saved_data["approximate"] = std::string(approximate);
    return op.call(gate, up, approximate);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::geglu_backward");
    const auto saved = ctx->get_saved_variables();
    const auto up = ctx->needs_input_grad(0) ? OptionalTensor(saved[1]) : std::nullopt;
    const auto approximate = ctx->saved_data["approximate"].toStringView();
    const auto [grad_gate, grad_up] = op.call(grad_outputs[0], saved[0], up, approximate, ctx->needs_input_grad(1));
    return {grad_gate, grad_up, Tensor()};
  }
};

Tensor forward_autograd(const Tensor& gate, const Tensor& up, std::string_view approximate) {
  return Geglu::apply(gate, up, approximate);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("geglu(Tensor gate, Tensor up, str approximate) -> Tensor");
  m.def(
      "geglu_backward(Tensor grad_output, Tensor gate, Tensor? up, str approximate, bool needs_up) -> "
      "(Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("geglu", &forward_cpu);
  m.impl("geglu_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("geglu", &forward_meta);
  m.impl("geglu_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("geglu", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "geglu_backward");
}

// The long-term-memory cell: ATen's matrix products, and on the CPU one pointwise kernel forward and one backward. The
// formula and what is saved: see __init__.py.
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/columns.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check_shape(const char* name, const Tensor& tensor, c10::SymIntArrayRef expected) {
  TORCH_CHECK_VALUE(
      tensor.sym_sizes() == expected, "lltm: ", name, " must have shape ", expected, ", got ", tensor.sym_sizes());
}

void check_matrix(const char* name, const Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.dim() == 2, "lltm: ", name, " must have shape [*, *], got ", tensor.sym_sizes());
}

void check_dtype(const Tensor& input, const char* name, const Tensor& other) {
  TORCH_CHECK_VALUE(
      other.scalar_type() == input.scalar_type(), "lltm: dtypes must be equal, got input ", input.scalar_type(),
      " and ", name, " ", other.scalar_type());
}

void check_inputs(
    const Tensor& input, const Tensor& weights, const Tensor& bias, const Tensor& old_h, const Tensor& old_cell) {
  check_matrix("input", input);
  check_matrix("old_h", old_h);
  const auto batch = input.sym_size(0), features = input.sym_size(1), state = old_h.sym_size(1);
  check_shape("old_h", old_h, {batch, state});
  check_shape("old_cell", old_cell, {batch, state});
  check_shape("weights", weights, {state * 3, state + features});
  check_shape("bias", bias, {state * 3});
  TORCH_CHECK_VALUE(
      input.is_floating_point(), "lltm: input must hold floating point numbers, got ", input.scalar_type());
  check_dtype(input, "weights", weights);
  check_dtype(input, "bias", bias);
  check_dtype(input, "old_h", old_h);
  check_dtype(input, "old_cell", old_cell);
}

template <typename Vec>
Vec sigmoid(const Vec& v) {
  return (Vec(1) + v.neg().exp()).reciprocal();
}

template <typename Vec>
Vec elu(const Vec& v) {
  return Vec::blendv(v.expm1(), v, v > Vec(0));
}

// One row of the forward: gates holds i, o and c, each of `state` numbers.
template <typename scalar_t>
void row_forward(scalar_t* new_h, scalar_t* new_cell, const scalar_t* gates, const scalar_t* old_cell, int64_t state) {
  using L = autofn::Lanes<scalar_t>;
  autofn::for_lanes<scalar_t>(state, [&](int64_t j, int64_t n) {
    const auto i = sigmoid(L::load(gates + j, n)), o = sigmoid(L::load(gates + state + j, n));
    const auto cell = L::load(old_cell + j, n) + elu(L::load(gates + 2 * state + j, n)) * i;
    L::store(cell, new_cell + j, n);
    L::store(cell.tanh() * o, new_h + j, n);
  });
}

// (new_h, new_cell) from the gates.
Two pointwise_cpu(const Tensor& gates_in, const Tensor& old_cell_in) {
  const Tensor gates = gates_in.contiguous(), old_cell = old_cell_in.contiguous();
  const int64_t batch = old_cell.size(0), state = old_cell.size(1);
  Tensor new_h = at::empty_like(old_cell), new_cell = at::empty_like(old_cell);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gates.scalar_type(), "lltm_pointwise_cpu", [&] {
    auto* h = new_h.mutable_data_ptr<scalar_t>();
    auto* cell = new_cell.mutable_data_ptr<scalar_t>();
    const auto* g = gates.const_data_ptr<scalar_t>();
    const auto* old = old_cell.const_data_ptr<scalar_t>();
    at::parallel_for(0, batch, autofn::row_grain(3 * state), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        row_forward(h + row * state, cell + row * state, g + row * 3 * state, old + row * state, state);
    });
  });
  return {new_h, new_cell};
}

// One row of the backward. grad_h and grad_cell may be null; sums takes the bias gradient.
template <typename scalar_t>
struct RowBackward {
  using L = autofn::Lanes<scalar_t>;
  using Vec = typename L::Vec;

  scalar_t* grad_gates;
  scalar_t* grad_old_cell;
  typename L::Wide* sums;
  const scalar_t* grad_h;
  const scalar_t* grad_cell;
  const scalar_t* gates;
  const scalar_t* new_cell;
  int64_t state;

  void compute() const {
    const Vec one(1), zero(0);
    autofn::for_lanes<scalar_t>(state, [&](int64_t j, int64_t n) {
      const Vec i = sigmoid(L::load(gates + j, n)), o = sigmoid(L::load(gates + state + j, n));
      const Vec a = elu(L::load(gates + 2 * state + j, n)), t = L::load(new_cell + j, n).tanh();
      const Vec dh = grad_h ? L::load(grad_h + j, n) : zero;
      const Vec dcell = (grad_cell ? L::load(grad_cell + j, n) : zero) + dh * o * (one - t * t);
      L::store(dcell, grad_old_cell + j, n);
      write(dcell * a * i * (one - i), j, n);
      write(dh * t * o * (one - o), state + j, n);
      write(dcell * i * (at::vec::minimum(a, zero) + one), 2 * state + j, n);
    });
  }

  void write(const Vec& grad, int64_t at, int64_t n) const {
    L::store(grad, grad_gates + at, n);
    L::store_wide(L::load_wide(sums + at, n) + grad, sums + at, n);
  }
};

// (grad_gates, grad_old_cell, grad_bias).
Three pointwise_backward_cpu(
    const OptionalTensor& grad_h_in,
    const OptionalTensor& grad_cell_in,
    const Tensor& gates_in,
    const Tensor& new_cell_in) {
  const Tensor gates = gates_in.contiguous(), new_cell = new_cell_in.contiguous();
  const Tensor grad_h = grad_h_in ? grad_h_in->contiguous() : Tensor();
  const Tensor grad_cell = grad_cell_in ? grad_cell_in->contiguous() : Tensor();
  const int64_t batch = new_cell.size(0), state = new_cell.size(1);
  Tensor grad_gates = at::empty_like(gates), grad_old_cell = at::empty_like(new_cell);
  Tensor partial = autofn::partial_sums(gates, 3 * state);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gates.scalar_type(), "lltm_pointwise_backward_cpu", [&] {
    auto* dg = grad_gates.mutable_data_ptr<scalar_t>();
    auto* dold = grad_old_cell.mutable_data_ptr<scalar_t>();
    auto* sums = partial.mutable_data_ptr<at::opmath_type<scalar_t>>();
    const auto* dh = grad_h_in ? grad_h.const_data_ptr<scalar_t>() : nullptr;
    const auto* dcell = grad_cell_in ? grad_cell.const_data_ptr<scalar_t>() : nullptr;
    const auto* g = gates.const_data_ptr<scalar_t>();
    const auto* cell = new_cell.const_data_ptr<scalar_t>();
    at::parallel_for(0, batch, autofn::row_grain(3 * state), [&](int64_t begin, int64_t end) {
      auto* own = autofn::own_sums(sums, 3 * state);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * state;
        RowBackward<scalar_t>{dg + 3 * at, dold + at, own,  dh ? dh + at : nullptr, dcell ? dcell + at : nullptr,
                              g + 3 * at,  cell + at, state}
            .compute();
        autofn::carry<scalar_t>(own, 3 * state, row + 1 - begin);
      }
    });
  });
  return {grad_gates, grad_old_cell, autofn::total(partial, gates.scalar_type())};
}

Two pointwise_meta(const Tensor& gates, const Tensor& old_cell) {
  return {
      at::empty_like(old_cell, at::MemoryFormat::Contiguous), at::empty_like(old_cell, at::MemoryFormat::Contiguous)};
}

Three pointwise_backward_meta(
    const OptionalTensor& grad_h, const OptionalTensor& grad_cell, const Tensor& gates, const Tensor& new_cell) {
  return {
      at::empty_like(gates, at::MemoryFormat::Contiguous), at::empty_like(new_cell, at::MemoryFormat::Contiguous),
      at::empty_symint({gates.sym_size(1)}, gates.options())};
}

// (new_h, new_cell, gates).
Three forward(
    const Tensor& input, const Tensor& weights, const Tensor& bias, const Tensor& old_h, const Tensor& old_cell) {
  static const auto pointwise = autofn::find<decltype(pointwise_cpu)>("autofn::lltm_pointwise");
  check_inputs(input, weights, bias, old_h, old_cell);
  const Tensor gates = at::addmm(bias, at::cat({old_h, input}, 1), weights.t());
  const auto [new_h, new_cell] = pointwise.call(gates, old_cell);
  return {new_h, new_cell, gates};
}

// The gradients of input, weights, bias, old_h and old_cell; that of weights where input and old_h are given.
Five backward(
    const OptionalTensor& grad_h,
    const OptionalTensor& grad_cell,
    const OptionalTensor& input,
    const OptionalTensor& weights,
    const OptionalTensor& old_h,
    const Tensor& gates,
    const Tensor& new_cell,
    bool needs_input,
    bool needs_h) {
  static const auto pointwise = autofn::find<decltype(pointwise_backward_cpu)>("autofn::lltm_pointwise_backward");
  const auto [grad_gates, grad_old_cell, grad_bias] = pointwise.call(grad_h, grad_cell, gates, new_cell);
  const auto state = new_cell.sym_size(1);
  Tensor grad_input, grad_weights, grad_old_h;
  if (needs_input) grad_input = at::mm(grad_gates, weights->narrow_symint(1, state, weights->sym_size(1) - state));
  if (input) grad_weights = at::mm(grad_gates.t(), at::cat({*old_h, *input}, 1));
  if (needs_h) grad_old_h = at::mm(grad_gates, weights->narrow_symint(1, 0, state));
  return {grad_input, grad_weights, grad_bias, grad_old_h, grad_old_cell};
}

class Lltm : public torch::autograd::Function<Lltm> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* ctx,
      const Tensor& input,
      const Tensor& weights,
      const Tensor& bias,
      const Tensor& old_h,
      const Tensor& old_cell) {
    static const auto op = autofn::find<decltype(::forward)>("autofn::lltm_forward");
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [new_h, new_cell, gates] = op.call(input, weights, bias, old_h, old_cell);
    const bool for_weights = weights.requires_grad();
    const bool for_joined = input.requires_grad() || old_h.requires_grad();
    ctx->save_for_backward(
        {for_weights ? input : Tensor(), for_joined ? weights : Tensor(), for_weights ? old_h : Tensor(), gates,
         new_cell});
    ctx->set_materialize_grads(false);
    return {new_h, new_cell};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(::backward)>("autofn::lltm_backward");
    const auto& grad_h = grad_outputs[0];
    const auto& grad_cell = grad_outputs[1];
    if (!grad_h.defined() && !grad_cell.defined()) return torch::autograd::variable_list(5);
    const auto saved = ctx->get_saved_variables();
    const auto given = [](const Tensor& tensor, bool needed) { return needed ? OptionalTensor(tensor) : std::nullopt; };
    const bool needs_input = ctx->needs_input_grad(0), needs_h = ctx->needs_input_grad(3);
    const bool needs_weights = ctx->needs_input_grad(1);
    auto [grad_input, grad_weights, grad_bias, grad_old_h, grad_old_cell] = op.call(
        given(grad_h, grad_h.defined()), given(grad_cell, grad_cell.defined()), given(saved[0], needs_weights),
        given(saved[1], needs_input || needs_h), given(saved[2], needs_weights), saved[3], saved[4], needs_input,
        needs_h);
    return {grad_input, grad_weights, grad_bias, grad_old_h, grad_old_cell};
  }
};

Two call_forward(
    const Tensor& input, const Tensor& weights, const Tensor& bias, const Tensor& old_h, const Tensor& old_cell) {
  const auto [new_h, new_cell, gates] = forward(input, weights, bias, old_h, old_cell);
  return {new_h, new_cell};
}

Two forward_autograd(
    const Tensor& input, const Tensor& weights, const Tensor& bias, const Tensor& old_h, const Tensor& old_cell) {
  const auto outputs = Lltm::apply(input, weights, bias, old_h, old_cell);
  return {outputs[0], outputs[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("lltm(Tensor input, Tensor weights, Tensor bias, Tensor old_h, Tensor old_cell) -> (Tensor, Tensor)");
  m.def(
      "lltm_forward(Tensor input, Tensor weights, Tensor bias, Tensor old_h, Tensor old_cell) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "lltm_backward(Tensor? grad_h, Tensor? grad_cell, Tensor? input, Tensor? weights, Tensor? old_h, Tensor gates, "
      "Tensor new_cell, bool needs_input, bool needs_h) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("lltm_pointwise(Tensor gates, Tensor old_cell) -> (Tensor, Tensor)");
  m.def(
      "lltm_pointwise_backward(Tensor? grad_h, Tensor? grad_cell, Tensor gates, Tensor new_cell) -> "
      "(Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) {
  m.impl("lltm", &call_forward);
  m.impl("lltm_forward", &forward);
  m.impl("lltm_backward", &backward);
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("lltm_pointwise", &pointwise_cpu);
  m.impl("lltm_pointwise_backward", &pointwise_backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("lltm_pointwise", &pointwise_meta);
  m.impl("lltm_pointwise_backward", &pointwise_backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("lltm", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "lltm_backward");
}

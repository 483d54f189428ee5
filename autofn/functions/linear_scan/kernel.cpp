// The linear recurrence on the CPU: one pass, vectorised over the channels. The formula and what is saved: see
// __init__.py.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "inputs.h"

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// Channels that are walked along time together, at most: their state lies on the stack.
constexpr int64_t kChannels = 1024;
constexpr int64_t kCacheLine = 64;
constexpr int64_t kAheadBytes = 4096;

// The way along time through tensors of (batch, time, channels).
struct Walk {
  int64_t batch, time, channels;
  bool reverse;

  // Where a step's channels begin. Steps are counted in the order in which they are taken.
  int64_t at(int64_t element, int64_t step) const {
    return (element * time + (reverse ? time - 1 - step : step)) * channels;
  }

  // How far from a step's channels lie those that are to be fetched: of the next step, or of one kAheadBytes on. By
  // itself the processor does not follow rows of memory from the last to the first: such a walk took twice as long.
  template <typename scalar_t>
  int64_t ahead() const {
    const int64_t elements = at::divup(kAheadBytes / int64_t{sizeof(scalar_t)}, channels) * channels;
    return reverse ? -elements : elements;
  }
};

Walk walk_of(const Tensor& a, bool reverse) { return {a.size(0), a.size(1), a.size(2), reverse}; }

// pass(element of the batch, first channel, channels) in parallel: all channels of an element at once, but fewer where
// there are more threads than elements. Blocks begin at cache lines.
template <typename scalar_t, typename Pass>
void for_blocks(const Walk& walk, Pass pass) {
  if (walk.batch * walk.channels == 0) return;
  constexpr int64_t unit = kCacheLine / sizeof(scalar_t);
  const int64_t shares = std::max<int64_t>(1, at::get_num_threads() / walk.batch);
  const int64_t width = std::min(kChannels, at::divup(at::divup(walk.channels, shares), unit) * unit);
  const int64_t blocks = at::divup(walk.channels, width);
  const int64_t grain = std::max<int64_t>(1, autofn::kGrain / (walk.time * width));
  at::parallel_for(0, walk.batch * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * width;
      pass(i / blocks, first, std::min(width, walk.channels - first));
    }
    autofn::stream_fence();
  });
}

// Whether the channels of a step begin at an aligned address in an output that is written past the caches.
bool is_streamed(const Tensor& out) {
  return autofn::is_streamed(out) && out.size(-1) * out.element_size() % autofn::kStreamAlignment == 0;
}

template <typename scalar_t, bool kStream>
struct Forward {
  using L = autofn::Lanes<scalar_t>;
  using Vec = typename L::Vec;

  scalar_t* h;
  const scalar_t* a;
  const scalar_t* x;
  const scalar_t* initial;
  Walk walk;

  void operator()(int64_t element, int64_t first, int64_t width) const {
    typename L::Wide state[kChannels];
    const auto* from = initial + element * walk.channels + first;
    autofn::for_lanes<scalar_t>(
        width, [&](int64_t i, int64_t n) { L::store_wide(L::load(from + i, n), state + i, n); });
    for (int64_t step = 0; step < walk.time; ++step) take(walk.at(element, step) + first, width, state);
  }

  void take(int64_t at, int64_t width, typename L::Wide* state) const {
    const int64_t ahead = walk.ahead<scalar_t>();
    autofn::for_lanes<scalar_t>(width, [&](int64_t i, int64_t n) {
      __builtin_prefetch(a + at + ahead + i);
      __builtin_prefetch(x + at + ahead + i);
      const Vec v = at::vec::fmadd(L::load(a + at + i, n), L::load_wide(state + i, n), L::load(x + at + i, n));
      L::store_wide(v, state + i, n);
      autofn::put<scalar_t, kStream>(v, h + at + i, n);
    });
  }
};

Tensor forward_cpu(const Tensor& a_in, const Tensor& x_in, const Tensor& initial_in, bool reverse) {
  autofn::linear_scan::check_inputs(a_in, x_in, initial_in);
  const Tensor a = a_in.contiguous(), x = x_in.contiguous(), initial = initial_in.contiguous();
  Tensor h = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "linear_scan_forward_cpu", [&] {
    const auto run = [&](auto stream) {
      const Walk walk = walk_of(a, reverse);
      for_blocks<scalar_t>(
          walk, Forward<scalar_t, stream>{
                    h.mutable_data_ptr<scalar_t>(), a.const_data_ptr<scalar_t>(), x.const_data_ptr<scalar_t>(),
                    initial.const_data_ptr<scalar_t>(), walk});
    };
    is_streamed(h) ? run(std::true_type()) : run(std::false_type());
  });
  return h;
}

// From the last step taken to the first. grad_a or grad_x may be null; initial and h are read for grad_a only.
template <typename scalar_t, bool kStream>
struct Backward {
  using L = autofn::Lanes<scalar_t>;
  using Vec = typename L::Vec;

  scalar_t* grad_a;
  scalar_t* grad_x;
  scalar_t* grad_initial;
  const scalar_t* grad_h;
  const scalar_t* a;
  const scalar_t* initial;
  const scalar_t* h;
  Walk walk;

  void operator()(int64_t element, int64_t first, int64_t width) const {
    typename L::Wide carried[kChannels];
    std::fill_n(carried, width, 0);
    for (int64_t step = walk.time - 1; step >= 0; --step)
      take(walk.at(element, step) + first, before(element, step, first), width, carried);
    auto* to = grad_initial + element * walk.channels + first;
    autofn::for_lanes<scalar_t>(
        width, [&](int64_t i, int64_t n) { L::store(L::load_wide(carried + i, n), to + i, n); });
  }

  const scalar_t* before(int64_t element, int64_t step, int64_t first) const {
    if (!grad_a) return nullptr;
    return step > 0 ? h + walk.at(element, step - 1) + first : initial + element * walk.channels + first;
  }

  // carried: a * g of the step after this one, then of this one.
  void take(int64_t at, const scalar_t* state, int64_t width, typename L::Wide* carried) const {
    const int64_t behind = -walk.ahead<scalar_t>();
    autofn::for_lanes<scalar_t>(width, [&](int64_t i, int64_t n) {
      __builtin_prefetch(grad_h + at + behind + i);
      __builtin_prefetch(a + at + behind + i);
      const Vec g = L::load(grad_h + at + i, n) + L::load_wide(carried + i, n);
      L::store_wide(L::load(a + at + i, n) * g, carried + i, n);
      if (grad_x) autofn::put<scalar_t, kStream>(g, grad_x + at + i, n);
      if (!grad_a) return;
      __builtin_prefetch(state + behind + i);
      autofn::put<scalar_t, kStream>(g * L::load(state + i, n), grad_a + at + i, n);
    });
  }
};

// The gradients of a, where initial and h are given; of x, where it is needed; and of initial.
Three backward_cpu(
    const Tensor& grad_h_in,
    const Tensor& a_in,
    const OptionalTensor& initial_in,
    const OptionalTensor& h_in,
    bool reverse,
    bool needs_x) {
  const Tensor grad_h = grad_h_in.contiguous(), a = a_in.contiguous();
  const Tensor initial = h_in ? initial_in->contiguous() : Tensor(), h = h_in ? h_in->contiguous() : Tensor();
  Tensor grad_a = h_in ? at::empty_like(a) : Tensor(), grad_x = needs_x ? at::empty_like(a) : Tensor();
  Tensor grad_initial = at::empty({a.size(0), a.size(2)}, a.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "linear_scan_backward_cpu", [&] {
    const auto written = [](const Tensor& t) { return t.defined() ? t.mutable_data_ptr<scalar_t>() : nullptr; };
    const auto read = [](const Tensor& t) { return t.defined() ? t.const_data_ptr<scalar_t>() : nullptr; };
    const auto run = [&](auto stream) {
      const Walk walk = walk_of(a, reverse);
      for_blocks<scalar_t>(
          walk, Backward<scalar_t, stream>{
                    written(grad_a), written(grad_x), written(grad_initial), read(grad_h), read(a), read(initial),
                    read(h), walk});
    };
    const bool streamed = (h_in || needs_x) && (!h_in || is_streamed(grad_a)) && (!needs_x || is_streamed(grad_x));
    streamed ? run(std::true_type()) : run(std::false_type());
  });
  return {grad_a, grad_x, grad_initial};
}

Tensor forward_meta(const Tensor& a, const Tensor& x, const Tensor& initial, bool reverse) {
  autofn::linear_scan::check_inputs(a, x, initial);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Three backward_meta(
    const Tensor& grad_h,
    const Tensor& a,
    const OptionalTensor& initial,
    const OptionalTensor& h,
    bool reverse,
    bool needs_x) {
  const auto like_a = [&](bool needed) { return needed ? at::empty_like(a, at::MemoryFormat::Contiguous) : Tensor(); };
  return {like_a(h.has_value()), like_a(needs_x), at::empty_symint({a.sym_size(0), a.sym_size(2)}, a.options())};
}

class LinearScan : public torch::autograd::Function<LinearScan> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx, const Tensor& a, const Tensor& x, const Tensor& initial, bool reverse) {
    static const auto op = autofn::find<decltype(forward_cpu)>("autofn::linear_scan");
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor h = op.call(a, x, initial, reverse);
    const bool needs_a = a.requires_grad();
    ctx->save_for_backward({a, needs_a ? initial : Tensor(), needs_a ? h : Tensor()});
    ctx->saved_data["reverse"] = reverse;
    return h;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::linear_scan_backward");
    const auto saved = ctx->get_saved_variables();
    const auto for_a = [&](const Tensor& t) { return ctx->needs_input_grad(0) ? OptionalTensor(t) : std::nullopt; };
    const auto [grad_a, grad_x, grad_initial] = op.call(
        grad_outputs[0], saved[0], for_a(saved[1]), for_a(saved[2]), ctx->saved_data["reverse"].toBool(),
        ctx->needs_input_grad(1));
    return {grad_a, grad_x, grad_initial, Tensor()};
  }
};

Tensor forward_autograd(const Tensor& a, const Tensor& x, const Tensor& initial, bool reverse) {
  return LinearScan::apply(a, x, initial, reverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("linear_scan(Tensor a, Tensor x, Tensor initial, bool reverse) -> Tensor");
  m.def(
      "linear_scan_backward(Tensor grad_h, Tensor a, Tensor? initial, Tensor? h, bool reverse, bool needs_x) -> "
      "(Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("linear_scan", &forward_cpu);
  m.impl("linear_scan_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("linear_scan", &forward_meta);
  m.impl("linear_scan_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("linear_scan", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "linear_scan_backward");
}

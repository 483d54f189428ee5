// Fake quantisation on the CPU. The formula and what is saved: see __init__.py.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "../../csrc/columns.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "inputs.h"

namespace {

using at::Tensor;
using at::vec::Vectorized;
using Pair = std::tuple<Tensor, Tensor>;

using autofn::fake_quantize::by_channel;
using autofn::fake_quantize::Channel;
using autofn::fake_quantize::check_inputs;
using autofn::fake_quantize::Layout;
using autofn::fake_quantize::layout_of;
using autofn::fake_quantize::Range;
using autofn::fake_quantize::step_gradient;
using autofn::fake_quantize::wide_steps;

template <typename Wide>
struct Quantiser {
  using Vec = Vectorized<Wide>;
  Vec low, high;

  explicit Quantiser(Range range) : low(static_cast<Wide>(range.low)), high(static_cast<Wide>(range.high)) {}

  // at::vec's clamp keeps NaN.
  Vec operator()(Vec x, Vec step) const { return at::vec::clamp(x / step, low, high).round() * step; }

  // grad_x, and the elements' terms of grad_step.
  std::array<Vec, 2> operator()(Vec grad_output, Vec x, Vec step) const {
    const Vec ratio = x / step, clipped = at::vec::clamp(ratio, low, high), inside = clipped == ratio;
    return {grad_output & inside, grad_output * (clipped.round() - (ratio & inside))};
  }
};

template <typename scalar_t, bool kStream>
struct Forward {
  using L = autofn::Lanes<scalar_t>;
  scalar_t* y;
  const scalar_t* x;
  Quantiser<typename L::Wide> quantiser;

  void write(int64_t i, int64_t n, const typename L::Vec& steps) const {
    autofn::put<scalar_t, kStream>(autofn::by_parts<scalar_t>(quantiser, L::load(x + i, n), steps), y + i, n);
  }
};

template <typename scalar_t, bool kStream>
struct Backward {
  using L = autofn::Lanes<scalar_t>;
  scalar_t* grad_x;  // or null
  const scalar_t* grad_output;
  const scalar_t* x;
  Quantiser<typename L::Wide> quantiser;

  // Writes grad_x; returns the terms of grad_step.
  typename L::Vec write(int64_t i, int64_t n, const typename L::Vec& steps) const {
    const auto found =
        autofn::by_parts_to<scalar_t, 2>(quantiser, L::load(grad_output + i, n), L::load(x + i, n), steps);
    if (grad_x) autofn::put<scalar_t, kStream>(found[0], grad_x + i, n);
    return found[1];
  }
};

// body(piece) for every piece of every line, in parallel.
template <typename Body>
void for_pieces(const Layout& layout, Body body) {
  const int64_t grain = autofn::row_grain(std::min(layout.inner, Layout::kPiece));
  at::parallel_for(0, layout.pieces(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) body(piece);
    autofn::stream_fence();
  });
}

// body(row, how many rows its thread has done before) for every row of a layout of rows, in parallel.
template <typename Body>
void for_rows(const Layout& layout, Body body) {
  at::parallel_for(0, layout.outer, autofn::row_grain(layout.channels), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row, row - begin);
    autofn::stream_fence();
  });
}

template <typename scalar_t, typename Pass>
void quantise(const Layout& layout, const Tensor& steps, const Pass& pass) {
  using L = autofn::Lanes<scalar_t>;
  const auto* from = steps.const_data_ptr<typename L::Wide>();
  if (layout.is_rows()) {
    for_rows(layout, [&](int64_t row, int64_t) {
      autofn::for_lanes<scalar_t>(layout.channels, [&](int64_t i, int64_t n) {
        pass.write(row * layout.channels + i, n, L::load_wide(from + i, n));
      });
    });
    return;
  }
  for_pieces(layout, [&](int64_t piece) {
    const int64_t first = layout.first_of(piece);
    const typename L::Vec step(from[layout.channel_of(piece)]);
    autofn::for_lanes<scalar_t>(layout.count_of(piece), [&](int64_t i, int64_t n) { pass.write(first + i, n, step); });
  });
}

// The gradients where every line has one step. Returns a sum a channel.
template <typename scalar_t, typename Pass>
Tensor gradients_of_lines(const Layout& layout, const Tensor& steps, const Pass& pass) {
  using L = autofn::Lanes<scalar_t>;
  const Tensor sums = at::empty({layout.pieces()}, steps.options());
  auto* to = sums.mutable_data_ptr<typename L::Wide>();
  const auto* from = steps.const_data_ptr<typename L::Wide>();
  for_pieces(layout, [&](int64_t piece) {
    const int64_t first = layout.first_of(piece);
    const typename L::Vec step(from[layout.channel_of(piece)]);
    to[piece] = autofn::sum_lanes<scalar_t>(
        layout.count_of(piece), [&](int64_t i, int64_t n) { return pass.write(first + i, n, step); });
  });
  return by_channel(sums, layout);
}

// The gradients where the step differs from element to element of a row. Returns a sum a channel.
template <typename scalar_t, typename Pass>
Tensor gradients_of_rows(const Layout& layout, const Tensor& steps, const Pass& pass) {
  using L = autofn::Lanes<scalar_t>;
  const Tensor sums = autofn::partial_sums(steps, layout.channels);
  auto* to = sums.mutable_data_ptr<typename L::Wide>();
  const auto* from = steps.const_data_ptr<typename L::Wide>();
  for_rows(layout, [&](int64_t row, int64_t done) {
    auto* own = autofn::own_sums(to, layout.channels);
    autofn::for_lanes<scalar_t>(layout.channels, [&](int64_t i, int64_t n) {
      const auto terms = pass.write(row * layout.channels + i, n, L::load_wide(from + i, n));
      L::store_wide(L::load_wide(own + i, n) + terms, own + i, n);
    });
    autofn::carry<scalar_t>(own, layout.channels, done + 1);
  });
  return autofn::total(sums, steps.scalar_type());
}

// run(a constant: whether `out`, where there is one, is written past the caches). For that each row or line must begin
// at an aligned address.
template <typename Run>
void streaming(const Tensor& out, const Layout& layout, Run run) {
  const int64_t each = layout.is_rows() ? layout.channels : layout.inner;
  const auto aligned = [&] { return each == out.numel() || each * out.element_size() % autofn::kStreamAlignment == 0; };
  if (out.defined() && autofn::is_streamed(out) && aligned()) {
    run(std::true_type());
  } else {
    run(std::false_type());
  }
}

Tensor forward_cpu(const Tensor& x_in, const Tensor& step, int64_t quant_min, int64_t quant_max, Channel channel) {
  const Range range{quant_min, quant_max};
  check_inputs(x_in, step, range, channel);
  const Tensor x = x_in.contiguous(), steps = wide_steps(step);
  const Layout layout = layout_of(x, channel);
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "fake_quantize_cpu", [&] {
    streaming(y, layout, [&](auto streamed) {
      const Forward<scalar_t, streamed> pass{
          y.mutable_data_ptr<scalar_t>(), x.const_data_ptr<scalar_t>(), Quantiser<at::opmath_type<scalar_t>>(range)};
      quantise<scalar_t>(layout, steps, pass);
    });
  });
  return y;
}

Pair backward_cpu(
    const Tensor& grad_output_in,
    const Tensor& x_in,
    const Tensor& step,
    int64_t quant_min,
    int64_t quant_max,
    Channel channel,
    bool needs_x,
    bool needs_step) {
  const Range range{quant_min, quant_max};
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous(), steps = wide_steps(step);
  const Layout layout = layout_of(x, channel);
  Tensor grad_x = needs_x ? at::empty_like(x) : Tensor(), sums;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "fake_quantize_backward_cpu", [&] {
    streaming(grad_x, layout, [&](auto streamed) {
      const Backward<scalar_t, streamed> pass{
          needs_x ? grad_x.mutable_data_ptr<scalar_t>() : nullptr, grad_output.const_data_ptr<scalar_t>(),
          x.const_data_ptr<scalar_t>(), Quantiser<at::opmath_type<scalar_t>>(range)};
      sums = layout.is_rows() ? gradients_of_rows<scalar_t>(layout, steps, pass)
                              : gradients_of_lines<scalar_t>(layout, steps, pass);
    });
  });
  return {grad_x, needs_step ? step_gradient(sums, step, layout, range) : Tensor()};
}

Tensor forward_meta(const Tensor& x, const Tensor& step, int64_t quant_min, int64_t quant_max, Channel channel) {
  check_inputs(x, step, {quant_min, quant_max}, channel);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Pair backward_meta(
    const Tensor& grad_output,
    const Tensor& x,
    const Tensor& step,
    int64_t quant_min,
    int64_t quant_max,
    Channel channel,
    bool needs_x,
    bool needs_step) {
  return {
      needs_x ? at::empty_like(x, at::MemoryFormat::Contiguous) : Tensor(),
      needs_step ? at::empty_like(step, at::MemoryFormat::Contiguous) : Tensor()};
}

class FakeQuantize : public torch::autograd::Function<FakeQuantize> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx,
      const Tensor& x,
      const Tensor& step,
      int64_t quant_min,
      int64_t quant_max,
      Channel channel) {
    static const auto op = autofn::find<decltype(forward_cpu)>("autofn::fake_quantize");
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, step});
    ctx->saved_data["quant_min"] = quant_min;
    ctx->saved_data["quant_max"] = quant_max;
    ctx->saved_data["channel"] = channel;
    return op.call(x, step, quant_min, quant_max, channel);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(backward_cpu)>("autofn::fake_quantize_backward");
    const auto saved = ctx->get_saved_variables();
    const auto [grad_x, grad_step] = op.call(
        grad_outputs[0], saved[0], saved[1], ctx->saved_data["quant_min"].toInt(), ctx->saved_data["quant_max"].toInt(),
        ctx->saved_data["channel"].toOptional<int64_t>(), ctx->needs_input_grad(0), ctx->needs_input_grad(1));
    return {grad_x, grad_step, Tensor(), Tensor(), Tensor()};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& step, int64_t quant_min, int64_t quant_max, Channel channel) {
  return FakeQuantize::apply(x, step, quant_min, quant_max, channel);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("fake_quantize(Tensor x, Tensor step, int quant_min, int quant_max, int? channel=None) -> Tensor");
  m.def(
      "fake_quantize_backward(Tensor grad_output, Tensor x, Tensor step, int quant_min, int quant_max, int? channel, "
      "bool needs_x, bool needs_step) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("fake_quantize", &forward_cpu);
  m.impl("fake_quantize_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("fake_quantize", &forward_meta);
  m.impl("fake_quantize_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("fake_quantize", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "fake_quantize_backward");
}

// Straight-through binarisation on the CPU. The formula and what is saved: see __init__.py.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "../../csrc/refuse.h"
#include "inputs.h"

namespace {

using at::Tensor;
using at::vec::Vectorized;
using Pair = std::tuple<Tensor, Tensor>;

using autofn::binarize_ste::check_input;
using autofn::binarize_ste::empty_words;
using autofn::binarize_ste::kWordBits;

// An integer as wide as the float type of the arithmetic.
template <typename Wide>
using Int = std::conditional_t<sizeof(Wide) == 8, int64_t, int32_t>;

template <typename Wide>
constexpr auto kBits = [] {
  std::array<Int<Wide>, kWordBits> bits{};
  for (int64_t i = 0; i < kWordBits; ++i) bits[i] = static_cast<Int<Wide>>(uint32_t{1} << i);
  return bits;
}();

// For each lane its bit of a word, where the first lane has bit `first`.
template <typename Wide>
Vectorized<Int<Wide>> bits_from(int64_t first) {
  return Vectorized<Int<Wide>>::loadu(kBits<Wide>.data() + first);
}

template <typename Wide>
uint32_t all_lanes(const Vectorized<Int<Wide>>& values) {
  Int<Wide> lanes[Vectorized<Wide>::size()];
  values.store(lanes);
  Int<Wide> word = 0;
  for (const auto lane : lanes) word |= lane;
  return static_cast<uint32_t>(word);
}

struct Sign {
  template <typename Vec>
  Vec operator()(Vec x) const {
    const Vec zero(0), one(1), minus_one(-1);
    return Vec::blendv(Vec::blendv(x, one, x >= zero), minus_one, x < zero);
  }
};

// Writes the signs of one word's elements; returns its bits: where abs(x) <= 1.
template <typename scalar_t, bool kStream>
uint32_t sign_word(scalar_t* y, const scalar_t* x, int64_t count) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  Vectorized<Int<Wide>> inside(0);
  autofn::for_lanes<scalar_t>(count, [&](int64_t i, int64_t n) {
    const auto values = L::load(x + i, n);
    autofn::put<scalar_t, kStream>(autofn::by_parts<scalar_t>(Sign(), values), y + i, n);
    for (int k = 0; k < L::kParts; ++k) {
      const auto mask = at::vec::cast<Int<Wide>>(values[k].abs() <= Vectorized<Wide>(1));
      inside = inside | (mask & bits_from<Wide>(i + k * Vectorized<Wide>::size()));
    }
  });
  return all_lanes<Wide>(inside);
}

template <typename scalar_t, bool kStream>
void mask_word(scalar_t* grad_x, const scalar_t* grad_output, uint32_t word, int64_t count) {
  using L = autofn::Lanes<scalar_t>;
  using Wide = typename L::Wide;
  const Vectorized<Int<Wide>> every(static_cast<Int<Wide>>(word));
  autofn::for_lanes<scalar_t>(count, [&](int64_t i, int64_t n) {
    auto values = L::load(grad_output + i, n);
    for (int k = 0; k < L::kParts; ++k) {
      const auto bits = bits_from<Wide>(i + k * Vectorized<Wide>::size());
      values[k] = values[k] & at::vec::cast<Wide>((every & bits) == bits);
    }
    autofn::put<scalar_t, kStream>(values, grad_x + i, n);
  });
}

// body(streamed, word, first, count) for the elements of every word, in parallel. streamed: a constant, whether `out`
// is written past the caches.
template <typename Body>
void for_words(const Tensor& out, Body body) {
  const auto run = [&](auto streamed) {
    at::parallel_for(
        0, (out.numel() + kWordBits - 1) / kWordBits, autofn::kGrain / kWordBits, [&](int64_t begin, int64_t end) {
          for (int64_t word = begin; word < end; ++word) {
            const int64_t first = word * kWordBits;
            body(streamed, word, first, std::min(kWordBits, out.numel() - first));
          }
          if (streamed) autofn::stream_fence();
        });
  };
  autofn::is_streamed(out) ? run(std::true_type()) : run(std::false_type());
}

Tensor sign_cpu(const Tensor& x_in, bool) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "binarize_ste_cpu", [&] { autofn::map<scalar_t>(y, Sign(), x); });
  return y;
}

Pair windowed_forward_cpu(const Tensor& x_in) {
  check_input(x_in);
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x), words = empty_words(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "binarize_ste_windowed_forward_cpu", [&] {
    auto* py = y.mutable_data_ptr<scalar_t>();
    auto* bits = words.mutable_data_ptr<int32_t>();
    const auto* px = x.const_data_ptr<scalar_t>();
    for_words(y, [=](auto streamed, int64_t word, int64_t first, int64_t count) {
      bits[word] = static_cast<int32_t>(sign_word<scalar_t, streamed>(py + first, px + first, count));
    });
  });
  return {y, words};
}

Tensor windowed_backward_cpu(const Tensor& grad_output_in, const Tensor& words) {
  const Tensor grad_output = grad_output_in.contiguous();
  Tensor grad_x = at::empty_like(grad_output);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, grad_x.scalar_type(), "binarize_ste_windowed_backward_cpu", [&] {
        auto* gx = grad_x.mutable_data_ptr<scalar_t>();
        const auto* g = grad_output.const_data_ptr<scalar_t>();
        const auto* bits = words.const_data_ptr<int32_t>();
        for_words(grad_x, [=](auto streamed, int64_t word, int64_t first, int64_t count) {
          mask_word<scalar_t, streamed>(gx + first, g + first, static_cast<uint32_t>(bits[word]), count);
        });
      });
  return grad_x;
}

Tensor sign_meta(const Tensor& x, bool) {
  check_input(x);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

Pair windowed_forward_meta(const Tensor& x) { return {sign_meta(x, true), empty_words(x)}; }

Tensor windowed_backward_meta(const Tensor& grad_output, const Tensor& words) {
  return at::empty_like(grad_output, at::MemoryFormat::Contiguous);
}

class StraightThrough : public torch::autograd::Function<StraightThrough> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, bool window) {
    static const auto op = autofn::find<decltype(sign_cpu)>("autofn::binarize_ste");
    at::AutoDispatchBelowADInplaceOrView guard;
    return op.call(x, window);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    return {grad_outputs[0], Tensor()};
  }
};

class Windowed : public torch::autograd::Function<Windowed> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    static const auto op = autofn::find<decltype(windowed_forward_cpu)>("autofn::binarize_ste_windowed_forward");
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [y, words] = op.call(x);
    ctx->save_for_backward({words});
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    static const auto op = autofn::find<decltype(windowed_backward_cpu)>("autofn::binarize_ste_windowed_backward");
    return {op.call(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

Tensor forward_autograd(const Tensor& x, bool window) {
  const bool needs_words = window && x.requires_grad() && at::GradMode::is_enabled();
  return needs_words ? Windowed::apply(x) : StraightThrough::apply(x, window);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("binarize_ste(Tensor x, bool window) -> Tensor");
  m.def("binarize_ste_windowed_forward(Tensor x) -> (Tensor y, Tensor words)");
  m.def("binarize_ste_windowed_backward(Tensor grad_output, Tensor words) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("binarize_ste", &sign_cpu);
  m.impl("binarize_ste_windowed_forward", &windowed_forward_cpu);
  m.impl("binarize_ste_windowed_backward", &windowed_backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("binarize_ste", &sign_meta);
  m.impl("binarize_ste_windowed_forward", &windowed_forward_meta);
  m.impl("binarize_ste_windowed_backward", &windowed_backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("binarize_ste", &forward_autograd);
  AUTOFN_REFUSE_DOUBLE_BACKWARD(m, "binarize_ste_windowed_backward");
}

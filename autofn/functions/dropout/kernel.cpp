// Dropout on the CPU. The formula, the two ways and what is saved: see __init__.py.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "../../csrc/elementwise.h"
#include "../../csrc/find.h"
#include "hash.h"
#include "inputs.h"
#include "mask.h"

namespace {

using at::Tensor;
using autofn::dropout::check_inputs;
using autofn::dropout::Draw;
using autofn::dropout::Drawn;
using autofn::dropout::empty_mask;
using autofn::dropout::Keep;
using autofn::dropout::Packed;
using autofn::dropout::Unpacked;

// y = x * scale where an element is kept, 0 where not.
template <typename scalar_t, bool kStream>
C10_ALWAYS_INLINE void scale_kept(
    scalar_t* y, const scalar_t* x, const typename autofn::Lanes<scalar_t>::Vec& scale, const Keep<scalar_t>& keep) {
  using L = autofn::Lanes<scalar_t>;
  for (int64_t i = 0; i < Keep<scalar_t>::kSize; i += L::kWidth)
    autofn::put<scalar_t, kStream>(L::load(x + i) * scale & keep.vectors[i / L::kWidth], y + i, L::kWidth);
}

// The same for n elements, with the mask of `start`; what is no whole mask at the end is done in a buffer.
template <typename scalar_t, bool kStream, typename Source>
void scale_elements(scalar_t* y, const scalar_t* x, double scale, const Source& start, int64_t n) {
  constexpr int64_t size = Keep<scalar_t>::kSize;
  const typename autofn::Lanes<scalar_t>::Vec by(static_cast<at::opmath_type<scalar_t>>(scale));
  Source source = start;
  Keep<scalar_t> keep;
  int64_t i = 0;
  for (; i + size <= n; i += size) {
    source.next(keep, size);
    scale_kept<scalar_t, kStream>(y + i, x + i, by, keep);
  }
  if (i < n) {
    scalar_t from[size] = {}, to[size];
    std::copy_n(x + i, n - i, from);
    source.next(keep, n - i);
    scale_kept<scalar_t, false>(to, from, by, keep);
    std::copy_n(to, n - i, y + i);
  }
  if (kStream) autofn::stream_fence();
}

// Source<scalar_t>(first, arguments...) tells the mask from the element `first` on.
template <template <typename> class Source, typename... Arguments>
Tensor scaled(const Tensor& x_in, double p, Arguments... arguments) {
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout_cpu", [&] {
    constexpr int64_t size = Keep<scalar_t>::kSize;
    const int64_t n = x.numel();
    const auto run = autofn::is_streamed(y) ? &scale_elements<scalar_t, true, Source<scalar_t>>
                                            : &scale_elements<scalar_t, false, Source<scalar_t>>;
    auto* to = y.mutable_data_ptr<scalar_t>();
    const auto* from = x.const_data_ptr<scalar_t>();
    at::parallel_for(0, (n + size - 1) / size, autofn::kGrain / size, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * size, last = std::min(n, end * size);
      run(to + first, from + first, autofn::dropout::scale(p), Source<scalar_t>(first, arguments...), last - first);
    });
  });
  return y;
}

Tensor dropout_cpu(const Tensor& x, double p, int64_t seed) {
  check_inputs(x, p);
  return scaled<Drawn>(x, p, Draw(p, seed));
}

std::tuple<Tensor, Tensor> mask_forward_cpu(const Tensor& x, double p, int64_t seed) {
  check_inputs(x, p);
  Tensor mask = empty_mask(x);
  return {scaled<Packed>(x, p, Draw(p, seed), mask.mutable_data_ptr<uint8_t>()), mask};
}

Tensor mask_backward_cpu(const Tensor& grad_output, const Tensor& mask, double p) {
  return scaled<Unpacked>(grad_output, p, mask.const_data_ptr<uint8_t>());
}

Tensor dropout_meta(const Tensor& x, double p, int64_t seed) {
  check_inputs(x, p);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

std::tuple<Tensor, Tensor> mask_forward_meta(const Tensor& x, double p, int64_t seed) {
  return {dropout_meta(x, p, seed), empty_mask(x)};
}

Tensor mask_backward_meta(const Tensor& grad_output, const Tensor& mask, double p) {
  return at::empty_like(grad_output, at::MemoryFormat::Contiguous);
}

// Each backward is linear in grad_output with the factors of the forward, and so is its own backward.
class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, double p, int64_t seed) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["p"] = p;
    ctx->saved_data["seed"] = seed;
    return call(x, p, seed);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    const double p = ctx->saved_data["p"].toDouble();
    return {call(grad_outputs[0], p, ctx->saved_data["seed"].toInt()), Tensor(), Tensor()};
  }

 private:
  static Tensor call(const Tensor& x, double p, int64_t seed) {
    static const auto op = autofn::find<decltype(dropout_cpu)>("autofn::dropout");
    return op.call(x, p, seed);
  }
};

// y = x * scale where the mask keeps an element: the backward, and the backward of that.
class Masked : public torch::autograd::Function<Masked> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& mask, double p) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({mask});
    ctx->saved_data["p"] = p;
    return call(x, mask, p);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    const Tensor mask = ctx->get_saved_variables()[0];
    return {call(grad_outputs[0], mask, ctx->saved_data["p"].toDouble()), Tensor(), Tensor()};
  }

  static Tensor call(const Tensor& x, const Tensor& mask, double p) {
    static const auto op = autofn::find<decltype(mask_backward_cpu)>("autofn::dropout_mask_backward");
    return op.call(x, mask, p);
  }
};

class DropoutMask : public torch::autograd::Function<DropoutMask> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, double p, int64_t seed) {
    static const auto op = autofn::find<decltype(mask_forward_cpu)>("autofn::dropout_mask_forward");
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [y, mask] = op.call(x, p, seed);
    ctx->save_for_backward({mask});
    ctx->saved_data["p"] = p;
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    const Tensor mask = ctx->get_saved_variables()[0];
    return {Masked::call(grad_outputs[0], mask, ctx->saved_data["p"].toDouble()), Tensor(), Tensor()};
  }
};

Tensor dropout_autograd(const Tensor& x, double p, int64_t seed) { return Dropout::apply(x, p, seed); }

// Where no gradient is needed no mask is kept.
Tensor mask(const Tensor& x, double p, int64_t seed) {
  static const auto op = autofn::find<decltype(dropout_cpu)>("autofn::dropout");
  return op.call(x, p, seed);
}

Tensor mask_autograd(const Tensor& x, double p, int64_t seed) { return DropoutMask::apply(x, p, seed); }

Tensor mask_backward_autograd(const Tensor& grad_output, const Tensor& mask, double p) {
  return Masked::apply(grad_output, mask, p);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("dropout(Tensor x, float p, int seed) -> Tensor");
  m.def("dropout_mask(Tensor x, float p, int seed) -> Tensor");
  m.def("dropout_mask_forward(Tensor x, float p, int seed) -> (Tensor y, Tensor mask)");
  m.def("dropout_mask_backward(Tensor grad_output, Tensor mask, float p) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CompositeExplicitAutograd, m) { m.impl("dropout_mask", &mask); }
TORCH_LIBRARY_IMPL(autofn, CPU, m) {
  m.impl("dropout", &dropout_cpu);
  m.impl("dropout_mask_forward", &mask_forward_cpu);
  m.impl("dropout_mask_backward", &mask_backward_cpu);
}
TORCH_LIBRARY_IMPL(autofn, Meta, m) {
  m.impl("dropout", &dropout_meta);
  m.impl("dropout_mask_forward", &mask_forward_meta);
  m.impl("dropout_mask_backward", &mask_backward_meta);
}
TORCH_LIBRARY_IMPL(autofn, Autograd, m) {
  m.impl("dropout", &dropout_autograd);
  m.impl("dropout_mask", &mask_autograd);
  m.impl("dropout_mask_backward", &mask_backward_autograd);
}

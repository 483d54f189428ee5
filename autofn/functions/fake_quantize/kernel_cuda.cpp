// Fake quantisation on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::fake_quantize_cuda {

using fake_quantize::Layout;
using fake_quantize::Range;

template <typename T>
void forward(T* y, const T* x, const Wide<T>* steps, Range range, Layout layout, cudaStream_t stream);
template <typename T>
void grad_x(
    T* out, const T* grad_output, const T* x, const Wide<T>* steps, Range range, Layout layout, cudaStream_t stream);
template <typename T>
void sum_pieces(
    Wide<T>* sums,
    const T* grad_output,
    const T* x,
    const Wide<T>* steps,
    Range range,
    Layout layout,
    cudaStream_t stream);
template <typename T>
void sum_rows(
    Wide<T>* sums,
    Wide<T>* partial,
    const T* grad_output,
    const T* x,
    const Wide<T>* steps,
    Range range,
    Layout layout,
    cudaStream_t stream);

}  // namespace autofn::fake_quantize_cuda

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
namespace kernels = autofn::fake_quantize_cuda;

using autofn::fake_quantize::Channel;
using autofn::fake_quantize::Layout;
using autofn::fake_quantize::Range;

Tensor forward_cuda(const Tensor& x_in, const Tensor& step, int64_t quant_min, int64_t quant_max, Channel channel) {
  const Range range{quant_min, quant_max};
  autofn::fake_quantize::check_inputs(x_in, step, range, channel);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous(), steps = autofn::fake_quantize::wide_steps(step);
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "fake_quantize_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), steps.const_data_ptr<at::opmath_type<scalar_t>>(), range,
        autofn::fake_quantize::layout_of(x, channel), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

// A sum a channel of the terms of grad_step.
template <typename scalar_t>
Tensor sum_terms(const Tensor& grad_output, const Tensor& x, const Tensor& steps, Range range, const Layout& layout) {
  using Wide = at::opmath_type<scalar_t>;
  const auto* g = autofn::read<scalar_t>(grad_output);
  const auto* px = autofn::read<scalar_t>(x);
  const auto* from = steps.const_data_ptr<Wide>();
  const auto stream = autofn::current_stream();
  if (layout.is_rows()) {
    const Tensor sums = at::empty_like(steps), partial = autofn::partial_sums(steps, layout.outer, layout.channels);
    kernels::sum_rows(
        sums.mutable_data_ptr<Wide>(), partial.mutable_data_ptr<Wide>(), g, px, from, range, layout, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sums;
  }
  const Tensor sums = at::empty({layout.pieces()}, steps.options());
  kernels::sum_pieces(sums.mutable_data_ptr<Wide>(), g, px, from, range, layout, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return autofn::fake_quantize::by_channel(sums, layout);
}

Pair backward_cuda(
    const Tensor& grad_output_in,
    const Tensor& x_in,
    const Tensor& step,
    int64_t quant_min,
    int64_t quant_max,
    Channel channel,
    bool needs_x,
    bool needs_step) {
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Range range{quant_min, quant_max};
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous();
  const Tensor steps = autofn::fake_quantize::wide_steps(step);
  const Layout layout = autofn::fake_quantize::layout_of(x, channel);
  Tensor grad_x = needs_x ? at::empty_like(x) : Tensor(), sums;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "fake_quantize_backward_cuda", [&] {
    if (needs_x) {
      kernels::grad_x(
          autofn::write<scalar_t>(grad_x), autofn::read<scalar_t>(grad_output), autofn::read<scalar_t>(x),
          steps.const_data_ptr<at::opmath_type<scalar_t>>(), range, layout, autofn::current_stream());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (needs_step) sums = sum_terms<scalar_t>(grad_output, x, steps, range, layout);
  });
  return {grad_x, needs_step ? autofn::fake_quantize::step_gradient(sums, step, layout, range) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("fake_quantize", &forward_cuda);
  m.impl("fake_quantize_backward", &backward_cuda);
}

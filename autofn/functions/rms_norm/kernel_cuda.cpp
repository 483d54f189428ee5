// Root-mean-square normalisation on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "../../csrc/row_numbers.h"
#include "inputs.h"

namespace autofn::rms_norm_cuda {

template <typename T>
void forward(
    T* y,
    Wide<T>* inverse_rms,
    const T* x,
    const T* weight,
    double eps,
    int64_t rows,
    int64_t features,
    cudaStream_t stream);
template <typename T>
void grad_x(
    T* out,
    const T* grad_output,
    const T* x,
    const T* weight,
    const Wide<T>* inverse_rms,
    int64_t rows,
    int64_t features,
    cudaStream_t stream);
template <typename T>
void grad_weight(
    T* out,
    Wide<T>* partial,
    const T* grad_output,
    const T* x,
    const Wide<T>* inverse_rms,
    int64_t rows,
    int64_t features,
    cudaStream_t stream);

}  // namespace autofn::rms_norm_cuda

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
namespace kernels = autofn::rms_norm_cuda;

Pair forward_cuda(const Tensor& x_in, const Tensor& weight_in, double eps) {
  autofn::rms_norm::check_inputs(x_in, weight_in, eps);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
  Tensor y = at::empty_like(x), inverse = autofn::empty_row_numbers(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm_forward_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(y), inverse.mutable_data_ptr<at::opmath_type<scalar_t>>(), autofn::read<scalar_t>(x),
        autofn::read<scalar_t>(weight), eps, inverse.numel(), weight.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {y, inverse};
}

// grad_x where weight is given, grad_weight where it is needed.
Pair backward_cuda(
    const Tensor& grad_output_in,
    const Tensor& x_in,
    const OptionalTensor& weight_in,
    const Tensor& inverse,
    bool needs_weight) {
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous();
  const Tensor weight = weight_in ? weight_in->contiguous() : Tensor();
  const int64_t rows = inverse.numel(), features = x.size(-1);
  Tensor grad_x = weight_in ? at::empty_like(x) : Tensor();
  Tensor grad_weight = needs_weight ? at::empty({features}, x.options()) : Tensor();
  const Tensor partial = needs_weight ? autofn::partial_sums(x, rows, features) : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm_backward_cuda", [&] {
    const auto* g = autofn::read<scalar_t>(grad_output);
    const auto* px = autofn::read<scalar_t>(x);
    const auto* r = inverse.const_data_ptr<at::opmath_type<scalar_t>>();
    const auto stream = autofn::current_stream();
    if (weight_in) {
      kernels::grad_x(
          autofn::write<scalar_t>(grad_x), g, px, autofn::read<scalar_t>(weight), r, rows, features, stream);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (needs_weight) {
      auto* sums = partial.mutable_data_ptr<at::opmath_type<scalar_t>>();
      kernels::grad_weight(autofn::write<scalar_t>(grad_weight), sums, g, px, r, rows, features, stream);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  });
  return {grad_x, grad_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("rms_norm_forward", &forward_cuda);
  m.impl("rms_norm_backward", &backward_cuda);
}

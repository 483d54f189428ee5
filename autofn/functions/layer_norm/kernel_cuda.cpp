// Layer normalisation on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "../../csrc/row_numbers.h"
#include "inputs.h"

namespace autofn::layer_norm_cuda {

template <typename T>
void forward(
    T* y,
    Wide<T>* means,
    Wide<T>* inverses,
    const T* x,
    const T* weight,
    const T* bias,
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
    const Wide<T>* means,
    const Wide<T>* inverses,
    int64_t rows,
    int64_t features,
    cudaStream_t stream);
template <typename T>
void grad_weight(
    T* out,
    Wide<T>* partial,
    const T* grad_output,
    const T* x,
    const Wide<T>* means,
    const Wide<T>* inverses,
    int64_t rows,
    int64_t features,
    cudaStream_t stream);
template <typename T>
void grad_bias(T* out, Wide<T>* partial, const T* grad_output, int64_t rows, int64_t features, cudaStream_t stream);

}  // namespace autofn::layer_norm_cuda

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
namespace kernels = autofn::layer_norm_cuda;

Triple forward_cuda(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in, double eps) {
  autofn::layer_norm::check_inputs(x_in, weight_in, bias_in, eps);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous(), weight = weight_in.contiguous(), bias = bias_in.contiguous();
  Tensor y = at::empty_like(x), mean = autofn::empty_row_numbers(x), inverse = autofn::empty_row_numbers(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "layer_norm_forward_cuda", [&] {
    using Wide = at::opmath_type<scalar_t>;
    kernels::forward(
        autofn::write<scalar_t>(y), mean.mutable_data_ptr<Wide>(), inverse.mutable_data_ptr<Wide>(),
        autofn::read<scalar_t>(x), autofn::read<scalar_t>(weight), autofn::read<scalar_t>(bias), eps, mean.numel(),
        weight.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {y, mean, inverse};
}

// grad_x where weight is given, the others where they are needed; x is given unless grad_bias alone is.
Triple backward_cuda(
    const Tensor& grad_output_in,
    const OptionalTensor& x_in,
    const OptionalTensor& weight_in,
    const OptionalTensor& mean,
    const OptionalTensor& inverse,
    bool needs_weight,
    bool needs_bias) {
  const c10::cuda::CUDAGuard guard(grad_output_in.device());
  const Tensor grad_output = grad_output_in.contiguous();
  const Tensor x = x_in ? x_in->contiguous() : Tensor(), weight = weight_in ? weight_in->contiguous() : Tensor();
  const int64_t features = grad_output.size(-1), rows = autofn::layer_norm::rows_of(grad_output).size(0);
  const auto row = [&](bool needed) { return needed ? at::empty({features}, grad_output.options()) : Tensor(); };
  Tensor grad_x = weight_in ? at::empty_like(x) : Tensor(), grad_weight = row(needs_weight),
         grad_bias = row(needs_bias);
  // One after the other in one stream, both sums may use it.
  const Tensor partial = needs_weight || needs_bias ? autofn::partial_sums(grad_output, rows, features) : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, grad_output.scalar_type(), "layer_norm_backward_cuda", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const auto* g = autofn::read<scalar_t>(grad_output);
    const auto stream = autofn::current_stream();
    if (weight_in) {
      kernels::grad_x(
          autofn::write<scalar_t>(grad_x), g, autofn::read<scalar_t>(x), autofn::read<scalar_t>(weight),
          mean->const_data_ptr<Wide>(), inverse->const_data_ptr<Wide>(), rows, features, stream);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (needs_weight) {
      kernels::grad_weight(
          autofn::write<scalar_t>(grad_weight), partial.mutable_data_ptr<Wide>(), g, autofn::read<scalar_t>(x),
          mean->const_data_ptr<Wide>(), inverse->const_data_ptr<Wide>(), rows, features, stream);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (needs_bias) {
      kernels::grad_bias(
          autofn::write<scalar_t>(grad_bias), partial.mutable_data_ptr<Wide>(), g, rows, features, stream);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  });
  return {grad_x, grad_weight, grad_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("layer_norm_forward", &forward_cuda);
  m.impl("layer_norm_backward", &backward_cuda);
}

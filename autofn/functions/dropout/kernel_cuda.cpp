// Dropout on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::dropout_cuda {

template <typename T>
void forward(T* y, const T* x, double p, int64_t seed, int64_t n, cudaStream_t stream);
template <typename T>
void forward_mask(T* y, uint8_t* mask, const T* x, double p, int64_t seed, int64_t n, cudaStream_t stream);
template <typename T>
void backward_mask(T* grad_x, const T* grad_output, const uint8_t* mask, double p, int64_t n, cudaStream_t stream);

}  // namespace autofn::dropout_cuda

namespace {

using at::Tensor;
using autofn::dropout::check_inputs;
using autofn::dropout::empty_mask;
namespace kernels = autofn::dropout_cuda;

Tensor dropout_cuda(const Tensor& x_in, double p, int64_t seed) {
  check_inputs(x_in, p);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), p, seed, x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

std::tuple<Tensor, Tensor> mask_forward_cuda(const Tensor& x_in, double p, int64_t seed) {
  check_inputs(x_in, p);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x), mask = empty_mask(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout_mask_forward_cuda", [&] {
    kernels::forward_mask(
        autofn::write<scalar_t>(y), mask.mutable_data_ptr<uint8_t>(), autofn::read<scalar_t>(x), p, seed, x.numel(),
        autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {y, mask};
}

Tensor mask_backward_cuda(const Tensor& grad_output_in, const Tensor& mask, double p) {
  const c10::cuda::CUDAGuard guard(grad_output_in.device());
  const Tensor grad_output = grad_output_in.contiguous();
  Tensor grad_x = at::empty_like(grad_output);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, grad_output.scalar_type(), "dropout_mask_backward_cuda", [&] {
        kernels::backward_mask(
            autofn::write<scalar_t>(grad_x), autofn::read<scalar_t>(grad_output), mask.const_data_ptr<uint8_t>(), p,
            grad_output.numel(), autofn::current_stream());
        C10_CUDA_KERNEL_LAUNCH_CHECK();
      });
  return grad_x;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("dropout", &dropout_cuda);
  m.impl("dropout_mask_forward", &mask_forward_cuda);
  m.impl("dropout_mask_backward", &mask_backward_cuda);
}

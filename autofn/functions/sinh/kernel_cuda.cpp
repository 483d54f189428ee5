// The hyperbolic sine on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "../../csrc/require.h"

namespace autofn::sinh_cuda {

template <typename T>
void forward(T* y, const T* x, int64_t n, cudaStream_t stream);
template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, int64_t n, cudaStream_t stream);

}  // namespace autofn::sinh_cuda

namespace {

using at::Tensor;
namespace kernels = autofn::sinh_cuda;

Tensor forward_cuda(const Tensor& x_in) {
  autofn::check_floating("sinh", "x", x_in);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "sinh_forward_cuda", [&] {
    kernels::forward(autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

Tensor backward_cuda(const Tensor& grad_output_in, const Tensor& y_in) {
  const c10::cuda::CUDAGuard guard(y_in.device());
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "sinh_backward_cuda", [&] {
    kernels::backward(
        autofn::write<scalar_t>(grad_x), autofn::read<scalar_t>(grad_output), autofn::read<scalar_t>(y), y.numel(),
        autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return grad_x;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("sinh", &forward_cuda);
  m.impl("sinh_backward", &backward_cuda);
}

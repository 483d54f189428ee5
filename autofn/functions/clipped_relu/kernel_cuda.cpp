// Clipped ReLU on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"

namespace autofn::clipped_relu_cuda {

template <typename T>
void forward(T* y, const T* x, double clip, int64_t n, cudaStream_t stream);
template <typename T>
void backward(T* grad_x, const T* grad_output, const T* y, double clip, int64_t n, cudaStream_t stream);

}  // namespace autofn::clipped_relu_cuda

namespace {

using at::Tensor;
namespace kernels = autofn::clipped_relu_cuda;

Tensor forward_cuda(const Tensor& x_in, double clip) {
  TORCH_CHECK_VALUE(
      x_in.is_floating_point(), "clipped_relu: x must hold floating point numbers, got ", x_in.scalar_type());
  TORCH_CHECK_VALUE(clip > 0, "clipped_relu: clip must be above 0, got ", clip);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "clipped_relu_forward_cuda", [&] {
    kernels::forward(autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), clip, x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

Tensor backward_cuda(const Tensor& grad_output_in, const Tensor& y_in, double clip) {
  const c10::cuda::CUDAGuard guard(y_in.device());
  const Tensor grad_output = grad_output_in.contiguous(), y = y_in.contiguous();
  Tensor grad_x = at::empty_like(y);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, y.scalar_type(), "clipped_relu_backward_cuda", [&] {
    // y was clipped in its own dtype, so the corner is the clip rounded to it.
    kernels::backward(
        autofn::write<scalar_t>(grad_x), autofn::read<scalar_t>(grad_output), autofn::read<scalar_t>(y),
        static_cast<scalar_t>(clip), y.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return grad_x;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("clipped_relu", &forward_cuda);
  m.impl("clipped_relu_backward", &backward_cuda);
}

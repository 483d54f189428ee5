// Straight-through rounding on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"

namespace autofn::round_ste_cuda {

template <typename T>
void forward(T* y, const T* x, int64_t n, cudaStream_t stream);

}  // namespace autofn::round_ste_cuda

namespace {

using at::Tensor;
namespace kernels = autofn::round_ste_cuda;

Tensor forward_cuda(const Tensor& x_in) {
  TORCH_CHECK_VALUE(
      x_in.is_floating_point(), "round_ste: x must hold floating point numbers, got ", x_in.scalar_type());
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "round_ste_cuda", [&] {
    kernels::forward(autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) { m.impl("round_ste", &forward_cuda); }

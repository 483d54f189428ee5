// A product with a constant on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"

namespace autofn::mul_constant_cuda {

template <typename T>
void product(T* y, const T* x, double constant, int64_t n, cudaStream_t stream);

}  // namespace autofn::mul_constant_cuda

namespace {

using at::Tensor;
namespace kernels = autofn::mul_constant_cuda;

Tensor product_cuda(const Tensor& x_in, double constant) {
  TORCH_CHECK_VALUE(
      x_in.is_floating_point(), "mul_constant: x must hold floating point numbers, got ", x_in.scalar_type());
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "mul_constant_cuda", [&] {
    kernels::product(
        autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), constant, x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) { m.impl("mul_constant", &product_cuda); }

// The logarithm of summed exponentials on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "../../csrc/row_numbers.h"
#include "inputs.h"

namespace autofn::logsumexp_cuda {

template <typename T>
void forward(T* y, Wide<T>* inverse, const T* x, int64_t rows, int64_t features, cudaStream_t stream);
template <typename T>
void backward(
    T* grad_x,
    const T* grad_output,
    const T* x,
    const Wide<T>* inverse,
    int64_t rows,
    int64_t features,
    cudaStream_t stream);

}  // namespace autofn::logsumexp_cuda

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
namespace kernels = autofn::logsumexp_cuda;

Pair forward_cuda(const Tensor& x_in) {
  autofn::logsumexp::check_input(x_in);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = autofn::logsumexp::empty_output(x), inverse = autofn::empty_row_numbers(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "logsumexp_forward_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(y), inverse.mutable_data_ptr<at::opmath_type<scalar_t>>(), autofn::read<scalar_t>(x),
        y.numel(), x.size(-1), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {y, inverse};
}

Tensor backward_cuda(const Tensor& grad_output_in, const Tensor& x_in, const Tensor& inverse) {
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor grad_output = grad_output_in.contiguous(), x = x_in.contiguous();
  Tensor grad_x = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "logsumexp_backward_cuda", [&] {
    kernels::backward(
        autofn::write<scalar_t>(grad_x), autofn::read<scalar_t>(grad_output), autofn::read<scalar_t>(x),
        inverse.const_data_ptr<at::opmath_type<scalar_t>>(), inverse.numel(), x.size(-1), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return grad_x;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("logsumexp_forward", &forward_cuda);
  m.impl("logsumexp_backward", &backward_cuda);
}

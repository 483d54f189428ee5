// Straight-through binarisation on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::binarize_ste_cuda {

template <typename T>
void sign(T* y, const T* x, int64_t n, cudaStream_t stream);
template <typename T>
void windowed_forward(T* y, uint32_t* words, const T* x, int64_t n, cudaStream_t stream);
template <typename T>
void windowed_backward(T* grad_x, const T* grad_output, const uint32_t* words, int64_t n, cudaStream_t stream);

}  // namespace autofn::binarize_ste_cuda

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
namespace kernels = autofn::binarize_ste_cuda;

Tensor sign_cuda(const Tensor& x_in, bool) {
  autofn::binarize_ste::check_input(x_in);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "binarize_ste_cuda", [&] {
    kernels::sign(autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

Pair windowed_forward_cuda(const Tensor& x_in) {
  autofn::binarize_ste::check_input(x_in);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x), words = autofn::binarize_ste::empty_words(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "binarize_ste_windowed_forward_cuda", [&] {
    kernels::windowed_forward(
        autofn::write<scalar_t>(y), reinterpret_cast<uint32_t*>(words.mutable_data_ptr<int32_t>()),
        autofn::read<scalar_t>(x), x.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {y, words};
}

Tensor windowed_backward_cuda(const Tensor& grad_output_in, const Tensor& words) {
  const c10::cuda::CUDAGuard guard(grad_output_in.device());
  const Tensor grad_output = grad_output_in.contiguous();
  Tensor grad_x = at::empty_like(grad_output);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, grad_x.scalar_type(), "binarize_ste_windowed_backward_cuda", [&] {
        kernels::windowed_backward(
            autofn::write<scalar_t>(grad_x), autofn::read<scalar_t>(grad_output),
            reinterpret_cast<const uint32_t*>(words.const_data_ptr<int32_t>()), grad_x.numel(),
            autofn::current_stream());
        C10_CUDA_KERNEL_LAUNCH_CHECK();
      });
  return grad_x;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("binarize_ste", &sign_cuda);
  m.impl("binarize_ste_windowed_forward", &windowed_forward_cuda);
  m.impl("binarize_ste_windowed_backward", &windowed_backward_cuda);
}

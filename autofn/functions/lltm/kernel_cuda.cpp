// The pointwise part of the long-term-memory cell on CUDA: the torch side of kernel.cu. The products are ATen's, see
// kernel.cpp.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"

namespace autofn::lltm_cuda {

template <typename T>
void forward(
    T* new_h, T* new_cell, const T* gates, const T* old_cell, int64_t batch, int64_t state, cudaStream_t stream);
template <typename T>
void backward(
    T* grad_gates,
    T* grad_old_cell,
    const T* grad_h,
    const T* grad_cell,
    const T* gates,
    const T* new_cell,
    int64_t batch,
    int64_t state,
    cudaStream_t stream);
template <typename T>
void bias_gradient(T* out, Wide<T>* partial, const T* grad_gates, int64_t batch, int64_t columns, cudaStream_t stream);

}  // namespace autofn::lltm_cuda

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
namespace kernels = autofn::lltm_cuda;

// (new_h, new_cell) from the gates.
Two pointwise_cuda(const Tensor& gates_in, const Tensor& old_cell_in) {
  const c10::cuda::CUDAGuard guard(gates_in.device());
  const Tensor gates = gates_in.contiguous(), old_cell = old_cell_in.contiguous();
  Tensor new_h = at::empty_like(old_cell), new_cell = at::empty_like(old_cell);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gates.scalar_type(), "lltm_pointwise_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(new_h), autofn::write<scalar_t>(new_cell), autofn::read<scalar_t>(gates),
        autofn::read<scalar_t>(old_cell), old_cell.size(0), old_cell.size(1), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {new_h, new_cell};
}

// (grad_gates, grad_old_cell, grad_bias).
Three pointwise_backward_cuda(
    const OptionalTensor& grad_h_in,
    const OptionalTensor& grad_cell_in,
    const Tensor& gates_in,
    const Tensor& new_cell_in) {
  const c10::cuda::CUDAGuard guard(gates_in.device());
  const Tensor gates = gates_in.contiguous(), new_cell = new_cell_in.contiguous();
  const Tensor grad_h = grad_h_in ? grad_h_in->contiguous() : Tensor();
  const Tensor grad_cell = grad_cell_in ? grad_cell_in->contiguous() : Tensor();
  const int64_t batch = new_cell.size(0), state = new_cell.size(1);
  Tensor grad_gates = at::empty_like(gates), grad_old_cell = at::empty_like(new_cell);
  Tensor grad_bias = at::empty({3 * state}, gates.options());
  const Tensor partial = autofn::partial_sums(gates, batch, 3 * state);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gates.scalar_type(), "lltm_pointwise_backward_cuda", [&] {
    const auto stream = autofn::current_stream();
    kernels::backward(
        autofn::write<scalar_t>(grad_gates), autofn::write<scalar_t>(grad_old_cell),
        grad_h_in ? autofn::read<scalar_t>(grad_h) : nullptr,
        grad_cell_in ? autofn::read<scalar_t>(grad_cell) : nullptr, autofn::read<scalar_t>(gates),
        autofn::read<scalar_t>(new_cell), batch, state, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    kernels::bias_gradient(
        autofn::write<scalar_t>(grad_bias), partial.mutable_data_ptr<at::opmath_type<scalar_t>>(),
        autofn::read<scalar_t>(grad_gates), batch, 3 * state, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_gates, grad_old_cell, grad_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("lltm_pointwise", &pointwise_cuda);
  m.impl("lltm_pointwise_backward", &pointwise_backward_cuda);
}

// The linear recurrence on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::linear_scan_cuda {

template <typename T>
void forward(
    T* h,
    const T* a,
    const T* x,
    const T* initial,
    int64_t batch,
    int64_t time,
    int64_t channels,
    bool reverse,
    cudaStream_t stream);
template <typename T>
void backward(
    T* grad_a,
    T* grad_x,
    T* grad_initial,
    const T* grad_h,
    const T* a,
    const T* initial,
    const T* h,
    int64_t batch,
    int64_t time,
    int64_t channels,
    bool reverse,
    cudaStream_t stream);

}  // namespace autofn::linear_scan_cuda

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
namespace kernels = autofn::linear_scan_cuda;

Tensor forward_cuda(const Tensor& a_in, const Tensor& x_in, const Tensor& initial_in, bool reverse) {
  autofn::linear_scan::check_inputs(a_in, x_in, initial_in);
  const c10::cuda::CUDAGuard guard(a_in.device());
  const Tensor a = a_in.contiguous(), x = x_in.contiguous(), initial = initial_in.contiguous();
  Tensor h = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "linear_scan_forward_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(h), autofn::read<scalar_t>(a), autofn::read<scalar_t>(x),
        autofn::read<scalar_t>(initial), a.size(0), a.size(1), a.size(2), reverse, autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return h;
}

// The gradients of a, where initial and h are given; of x, where it is needed; and of initial.
std::tuple<Tensor, Tensor, Tensor> backward_cuda(
    const Tensor& grad_h_in,
    const Tensor& a_in,
    const OptionalTensor& initial_in,
    const OptionalTensor& h_in,
    bool reverse,
    bool needs_x) {
  const c10::cuda::CUDAGuard guard(a_in.device());
  const Tensor grad_h = grad_h_in.contiguous(), a = a_in.contiguous();
  const Tensor initial = h_in ? initial_in->contiguous() : Tensor(), h = h_in ? h_in->contiguous() : Tensor();
  Tensor grad_a = h_in ? at::empty_like(a) : Tensor(), grad_x = needs_x ? at::empty_like(a) : Tensor();
  Tensor grad_initial = at::empty({a.size(0), a.size(2)}, a.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, a.scalar_type(), "linear_scan_backward_cuda", [&] {
    kernels::backward(
        h_in ? autofn::write<scalar_t>(grad_a) : nullptr, needs_x ? autofn::write<scalar_t>(grad_x) : nullptr,
        autofn::write<scalar_t>(grad_initial), autofn::read<scalar_t>(grad_h), autofn::read<scalar_t>(a),
        h_in ? autofn::read<scalar_t>(initial) : nullptr, h_in ? autofn::read<scalar_t>(h) : nullptr, a.size(0),
        a.size(1), a.size(2), reverse, autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_a, grad_x, grad_initial};
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("linear_scan", &forward_cuda);
  m.impl("linear_scan_backward", &backward_cuda);
}

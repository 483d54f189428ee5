// The GEGLU gate on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::geglu_cuda {

template <typename T>
void forward(T* y, const T* gate, const T* up, bool is_tanh, int64_t n, cudaStream_t stream);
template <typename T>
void backward(
    T* grad_gate,
    T* grad_up,
    const T* grad_output,
    const T* gate,
    const T* up,
    bool is_tanh,
    int64_t n,
    cudaStream_t stream);

}  // namespace autofn::geglu_cuda

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
namespace kernels = autofn::geglu_cuda;

Tensor forward_cuda(const Tensor& gate_in, const Tensor& up_in, std::string_view approximate) {
  autofn::geglu::check_inputs(gate_in, up_in, approximate);
  const c10::cuda::CUDAGuard guard(gate_in.device());
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  Tensor y = at::empty_like(gate);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "geglu_forward_cuda", [&] {
    kernels::forward(
        autofn::write<scalar_t>(y), autofn::read<scalar_t>(gate), autofn::read<scalar_t>(up), approximate == "tanh",
        gate.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

// grad_gate where up is given, grad_up where it is needed.
Pair backward_cuda(
    const Tensor& grad_output_in,
    const Tensor& gate_in,
    const OptionalTensor& up_in,
    std::string_view approximate,
    bool needs_up) {
  const c10::cuda::CUDAGuard guard(gate_in.device());
  const Tensor grad_output = grad_output_in.contiguous(), gate = gate_in.contiguous();
  const Tensor up = up_in ? up_in->contiguous() : Tensor();
  const Tensor grad_gate = up_in ? at::empty_like(gate) : Tensor(),
               grad_up = needs_up ? at::empty_like(gate) : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "geglu_backward_cuda", [&] {
    kernels::backward(
        up_in ? autofn::write<scalar_t>(grad_gate) : nullptr, needs_up ? autofn::write<scalar_t>(grad_up) : nullptr,
        autofn::read<scalar_t>(grad_output), autofn::read<scalar_t>(gate), up_in ? autofn::read<scalar_t>(up) : nullptr,
        approximate == "tanh", gate.numel(), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_gate, grad_up};
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("geglu", &forward_cuda);
  m.impl("geglu_backward", &backward_cuda);
}

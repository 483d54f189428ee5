// Rotary position embedding on CUDA: the torch side of kernel.cu.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::rope_cuda {

template <typename T>
void turn(
    T* y,
    const T* x,
    const T* cos,
    const T* sin,
    int64_t rows,
    int64_t positions,
    int64_t features,
    int64_t pairs,
    bool interleaved,
    bool opposite,
    cudaStream_t stream);

}  // namespace autofn::rope_cuda

namespace {

using at::Tensor;

Tensor turn_cuda(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved, bool opposite) {
  autofn::rope::check_inputs(x_in, cos_in, sin_in);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.contiguous(), cos = cos_in.contiguous(), sin = sin_in.contiguous();
  Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  const int64_t positions = x.size(-2), features = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rope_cuda", [&] {
    autofn::rope_cuda::turn(
        autofn::write<scalar_t>(y), autofn::read<scalar_t>(x), autofn::read<scalar_t>(cos), autofn::read<scalar_t>(sin),
        x.numel() / features, positions, features, cos.size(1), interleaved, opposite, autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) { m.impl("rope", &turn_cuda); }

// The bias gradient of the linear layer on CUDA: the torch side of kernel.cu. The products are ATen's, see kernel.cpp.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "../../csrc/device.h"

namespace autofn::linear_cuda {

template <typename T>
void bias_gradient(T* out, Wide<T>* partial, const T* rows, int64_t count, int64_t columns, cudaStream_t stream);

}  // namespace autofn::linear_cuda

namespace {

using at::Tensor;

Tensor bias_gradient_cuda(const Tensor& rows_in) {
  const c10::cuda::CUDAGuard guard(rows_in.device());
  const Tensor rows = rows_in.contiguous();
  const int64_t count = rows.size(0), columns = rows.size(1);
  Tensor out = at::empty({columns}, rows.options());
  const Tensor partial = autofn::partial_sums(rows, count, columns);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, rows.scalar_type(), "linear_bias_gradient_cuda", [&] {
    autofn::linear_cuda::bias_gradient(
        autofn::write<scalar_t>(out), partial.mutable_data_ptr<at::opmath_type<scalar_t>>(),
        autofn::read<scalar_t>(rows), count, columns, autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) { m.impl("linear_bias_gradient", &bias_gradient_cuda); }

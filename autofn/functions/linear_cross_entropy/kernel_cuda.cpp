// The part of linear cross entropy between the products on CUDA: the torch side of kernel.cu. The passes: passes.h.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::linear_cross_entropy_cuda {

template <typename T>
void logsumexp(Wide<T>* out, const T* logits, int64_t rows, int64_t words, cudaStream_t stream);
template <typename T>
void gradient(
    T* logits,
    const int64_t* target,
    const Wide<T>* logsumexp,
    const Wide<T>* factors,
    int64_t rows,
    int64_t words,
    cudaStream_t stream);

}  // namespace autofn::linear_cross_entropy_cuda

namespace {

using at::Tensor;
namespace kernels = autofn::linear_cross_entropy_cuda;

Tensor logsumexp_cuda(const Tensor& logits) {
  const c10::cuda::CUDAGuard guard(logits.device());
  const int64_t rows = logits.size(0), words = logits.size(1);
  Tensor out = at::empty({rows}, logits.options().dtype(autofn::linear_cross_entropy::wide(logits)));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "linear_cross_entropy_cuda", [&] {
    kernels::logsumexp(
        out.mutable_data_ptr<at::opmath_type<scalar_t>>(), autofn::read<scalar_t>(logits), rows, words,
        autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}

void gradient_cuda(const Tensor& logits, const Tensor& target, const Tensor& logsumexp, const Tensor& factors) {
  const c10::cuda::CUDAGuard guard(logits.device());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "linear_cross_entropy_cuda", [&] {
    using Wide = at::opmath_type<scalar_t>;
    kernels::gradient(
        autofn::write<scalar_t>(logits), target.const_data_ptr<int64_t>(), logsumexp.const_data_ptr<Wide>(),
        factors.const_data_ptr<Wide>(), logits.size(0), logits.size(1), autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("linear_cross_entropy_logsumexp", &logsumexp_cuda);
  m.impl("linear_cross_entropy_gradient_", &gradient_cuda);
}

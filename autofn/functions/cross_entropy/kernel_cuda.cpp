// Cross entropy on CUDA: the torch side of kernel.cu. What is one number a row or less is ATen's, on the device:
// nothing waits for it.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "../../csrc/device.h"
#include "inputs.h"

namespace autofn::cross_entropy_cuda {

template <typename T>
void forward(
    Wide<T>* losses,
    Wide<T>* logsumexps,
    const T* logits,
    const int64_t* target,
    const T* weight,
    double label_smoothing,
    int64_t ignore_index,
    int64_t rows,
    int64_t classes,
    cudaStream_t stream);
template <typename T>
void backward(
    T* grad_logits,
    const Wide<T>* grads,
    const T* logits,
    const int64_t* target,
    const Wide<T>* logsumexps,
    const T* weight,
    const Wide<T>* all_weights,
    double label_smoothing,
    int64_t ignore_index,
    int64_t rows,
    int64_t classes,
    cudaStream_t stream);

}  // namespace autofn::cross_entropy_cuda

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
namespace kernels = autofn::cross_entropy_cuda;
using autofn::cross_entropy::is_mean;
using autofn::cross_entropy::is_none;

at::ScalarType wide(const Tensor& tensor) { return at::toOpMathType(tensor.scalar_type()); }

// The sum of the weights of all targets that are not ignored.
Tensor total_weight(const Tensor& target, const OptionalTensor& weight, int64_t ignore_index) {
  const Tensor kept = target.ne(ignore_index);
  if (!weight) return at::sum(kept);
  const Tensor weights = weight->to(wide(*weight)).index_select(0, target.masked_fill(kept.logical_not(), 0));
  return at::sum(weights.masked_fill(kept.logical_not(), 0));
}

template <typename scalar_t>
const autofn::DeviceType<scalar_t>* read_or_null(const OptionalTensor& tensor) {
  return tensor ? autofn::read<scalar_t>(*tensor) : nullptr;
}

OptionalTensor contiguous(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(tensor->contiguous()) : std::nullopt;
}

Pair forward_cuda(
    const Tensor& logits_in,
    const Tensor& target_in,
    const OptionalTensor& weight_in,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  autofn::cross_entropy::check_inputs(logits_in, target_in, weight_in, reduction, label_smoothing);
  const c10::cuda::CUDAGuard guard(logits_in.device());
  const Tensor logits = logits_in.contiguous(), target = target_in.contiguous();
  const OptionalTensor weight = contiguous(weight_in);
  const int64_t rows = logits.size(0), classes = logits.size(1);
  const auto numbers = logits.options().dtype(wide(logits));
  Tensor losses = at::empty({rows}, numbers), logsumexp = at::empty({rows}, numbers);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy_forward_cuda", [&] {
    using Wide = at::opmath_type<scalar_t>;
    kernels::forward(
        losses.mutable_data_ptr<Wide>(), logsumexp.mutable_data_ptr<Wide>(), autofn::read<scalar_t>(logits),
        target.const_data_ptr<int64_t>(), read_or_null<scalar_t>(weight), label_smoothing, ignore_index, rows, classes,
        autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  if (is_none(reduction)) return {losses.to(logits.scalar_type()), logsumexp};
  const Tensor sum = at::sum(losses);
  const Tensor loss = is_mean(reduction) ? sum.div(total_weight(target, weight, ignore_index)) : sum;
  return {loss.to(logits.scalar_type()), logsumexp};
}

Tensor backward_cuda(
    const Tensor& grad_output,
    const Tensor& logits_in,
    const Tensor& target_in,
    const OptionalTensor& weight_in,
    const Tensor& logsumexp,
    int64_t ignore_index,
    std::string_view reduction,
    double label_smoothing) {
  const c10::cuda::CUDAGuard guard(logits_in.device());
  const Tensor logits = logits_in.contiguous(), target = target_in.contiguous();
  const OptionalTensor weight = contiguous(weight_in);
  const int64_t rows = logits.size(0), classes = logits.size(1);
  const auto numbers = logits.options().dtype(wide(logits));
  const Tensor grad = grad_output.to(wide(logits));
  const Tensor each = is_mean(reduction) ? grad.div(total_weight(target, weight, ignore_index)) : grad;
  const Tensor grads = each.expand({rows}).contiguous();
  const Tensor all_weights = weight ? at::sum(weight->to(wide(logits))) : at::full({}, classes, numbers);
  Tensor grad_logits = at::empty_like(logits);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy_backward_cuda", [&] {
    using Wide = at::opmath_type<scalar_t>;
    kernels::backward(
        autofn::write<scalar_t>(grad_logits), grads.const_data_ptr<Wide>(), autofn::read<scalar_t>(logits),
        target.const_data_ptr<int64_t>(), logsumexp.const_data_ptr<Wide>(), read_or_null<scalar_t>(weight),
        all_weights.const_data_ptr<Wide>(), label_smoothing, ignore_index, rows, classes, autofn::current_stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return grad_logits;
}

}  // namespace

TORCH_LIBRARY_IMPL(autofn, CUDA, m) {
  m.impl("cross_entropy_forward", &forward_cuda);
  m.impl("cross_entropy_backward", &backward_cuda);
}

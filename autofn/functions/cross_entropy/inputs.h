// What the operators of cross_entropy share on every device: the reductions, and the check of the arguments.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "../../csrc/require.h"

namespace autofn::cross_entropy {

inline bool is_mean(std::string_view reduction) { return reduction == "mean"; }
inline bool is_none(std::string_view reduction) { return reduction == "none"; }

inline void check_weight(const at::Tensor& logits, const at::Tensor& weight) {
  TORCH_CHECK_VALUE(
      weight.dim() == 1 && weight.sym_size(0) == logits.sym_size(1), "cross_entropy: weight must have shape [",
      logits.sym_size(1), "], got ", weight.sym_sizes());
  TORCH_CHECK_VALUE(
      weight.scalar_type() == logits.scalar_type(), "cross_entropy: dtypes must be equal, got logits ",
      logits.scalar_type(), " and weight ", weight.scalar_type());
  TORCH_CHECK_VALUE(
      weight.device() == logits.device(), "cross_entropy: devices must be equal, got logits ", logits.device(),
      " and weight ", weight.device());
}

// All but the values of target, which only a kernel can see.
inline void check_inputs(
    const at::Tensor& logits,
    const at::Tensor& target,
    const std::optional<at::Tensor>& weight,
    std::string_view reduction,
    double label_smoothing) {
  check_floating("cross_entropy", "logits", logits);
  TORCH_CHECK_VALUE(
      logits.dim() == 2 && logits.sym_size(1) > 0,
      "cross_entropy: logits must have shape [rows, classes] with a class at least, got ", logits.sym_sizes());
  TORCH_CHECK_VALUE(
      target.scalar_type() == at::kLong, "cross_entropy: target must hold int64 indices of classes, got ",
      target.scalar_type());
  TORCH_CHECK_VALUE(
      target.dim() == 1 && target.sym_size(0) == logits.sym_size(0), "cross_entropy: target must have shape [",
      logits.sym_size(0), "], got ", target.sym_sizes());
  TORCH_CHECK_VALUE(
      target.device() == logits.device(), "cross_entropy: devices must be equal, got logits ", logits.device(),
      " and target ", target.device());
  if (weight) check_weight(logits, *weight);
  TORCH_CHECK_VALUE(
      reduction == "none" || reduction == "sum" || reduction == "mean",
      "cross_entropy: reduction must be 'none', 'sum' or 'mean', got '", reduction, "'");
  TORCH_CHECK_VALUE(
      label_smoothing >= 0 && label_smoothing <= 1, "cross_entropy: label_smoothing must be from 0 to 1, got ",
      label_smoothing);
}

}  // namespace autofn::cross_entropy

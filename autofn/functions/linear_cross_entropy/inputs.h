// What the operators of linear_cross_entropy share on every device: the check of the arguments, and the reduction.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>

#include <string_view>

#include "../../csrc/require.h"

namespace autofn::linear_cross_entropy {

// How rows become one number.
struct Reduction {
  int64_t ignore_index;
  std::string_view name;

  bool is_mean() const { return name == "mean"; }
};

inline void check_inputs(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& target, const Reduction& reduction) {
  const char* who = "linear_cross_entropy";
  TORCH_CHECK_VALUE(hidden.dim() == 2, who, ": hidden must have shape [*, *], got ", hidden.sym_sizes());
  TORCH_CHECK_VALUE(
      weight.dim() == 2 && weight.sym_size(1) == hidden.sym_size(1), who, ": weight must have shape [*, ",
      hidden.sym_size(1), "], got ", weight.sym_sizes());
  TORCH_CHECK_VALUE(weight.sym_size(0) > 0, who, ": weight must have a row at least, got ", weight.sym_sizes());
  TORCH_CHECK_VALUE(
      target.dim() == 1 && target.sym_size(0) == hidden.sym_size(0), who, ": target must have shape [",
      hidden.sym_size(0), "], got ", target.sym_sizes());
  check_floating(who, "hidden", hidden);
  check_floating(who, "weight", weight);
  TORCH_CHECK_VALUE(
      weight.scalar_type() == hidden.scalar_type(), who, ": dtypes must be equal, got hidden ", hidden.scalar_type(),
      " and weight ", weight.scalar_type());
  TORCH_CHECK_VALUE(
      target.scalar_type() == at::kLong, who, ": target must hold int64 indices, got ", target.scalar_type());
  TORCH_CHECK_VALUE(
      weight.device() == hidden.device() && target.device() == hidden.device(), who,
      ": devices must be equal, got hidden ", hidden.device(), " and weight ", weight.device(), " and target ",
      target.device());
  TORCH_CHECK_VALUE(
      reduction.is_mean() || reduction.name == "sum", who, ": reduction must be 'mean' or 'sum', got '", reduction.name,
      "'");
}

// Where the values of target are there to be seen.
inline void check_range(const at::Tensor& target, int64_t vocabulary, int64_t ignore_index) {
  if (!target.is_cpu()) return;
  const at::Tensor words = target.contiguous();
  const auto* word = words.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < words.numel(); ++row) {
    TORCH_CHECK_INDEX(
        word[row] == ignore_index || (word[row] >= 0 && word[row] < vocabulary),
        "linear_cross_entropy: target must be below ", vocabulary, " or ignore_index ", ignore_index, ", got ",
        word[row], " in row ", row);
  }
}

inline at::ScalarType wide(const at::Tensor& tensor) { return at::toOpMathType(tensor.scalar_type()); }

// (rows,): the derivative of the loss by each row's loss, 0 where the target is ignored.
inline at::Tensor factors(const at::Tensor& target, const Reduction& reduction, at::ScalarType dtype) {
  const at::Tensor kept = target.ne(reduction.ignore_index);
  const at::Tensor factor =
      reduction.is_mean() ? kept.sum(dtype).reciprocal() : at::ones({}, target.options().dtype(dtype));
  return at::where(kept, factor, 0);
}

// The losses of the rows, of which those of ignored ones do not count, as one number.
inline at::Tensor reduced(const at::Tensor& losses, const at::Tensor& target, const Reduction& reduction) {
  const at::Tensor kept = target.ne(reduction.ignore_index);
  const at::Tensor total = at::where(kept, losses, 0).sum();
  return reduction.is_mean() ? total.div(kept.sum()) : total;
}

}  // namespace autofn::linear_cross_entropy

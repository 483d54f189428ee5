// The passes over chunks of logits, whatever the device: by rows with gradients in the forward, or by words without.
#pragma once

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/where.h>

#include <limits>

#include "../../csrc/find.h"
#include "chunks.h"
#include "inputs.h"

namespace autofn::linear_cross_entropy {

using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

// Of the logits' device; they are contiguous, (rows, words), and target counts from the first of the words.
inline Tensor logsumexp_of(const Tensor& logits) {
  static const auto op = find<Tensor(const Tensor&)>("autofn::linear_cross_entropy_logsumexp");
  return op.call(logits);
}

inline void to_gradient(const Tensor& logits, const Tensor& target, const Tensor& logsumexp, const Tensor& factors) {
  static const auto op =
      find<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>("autofn::linear_cross_entropy_gradient_");
  op.call(logits, target, logsumexp, factors);
}

// The targets' logits; target counts from the first of the words.
inline Tensor chosen_of(const Tensor& logits, const Tensor& target) {
  return logits.gather(1, target.unsqueeze(1)).squeeze(1);
}

// The loss, and its gradients where they are needed, by chunks of rows.
inline Gradients forward(
    const Tensor& hidden_in,
    const Tensor& weight_in,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction_name,
    bool needs_hidden,
    bool needs_weight) {
  const Reduction reduction{ignore_index, reduction_name};
  check_inputs(hidden_in, weight_in, target, reduction);
  const Tensor hidden = hidden_in.contiguous(), weight = weight_in.contiguous();
  check_range(target, weight.size(0), ignore_index);
  const Tensor by_row = factors(target, reduction, wide(hidden));
  // An ignored row has any word as its target, and factor 0.
  const Tensor words = at::where(target.ne(ignore_index), target, 0);
  Tensor losses = at::empty_like(by_row), grad_hidden = empty_parts(hidden, needs_hidden),
         sums = empty_sums(weight, needs_weight);
  const Chunks chunks(hidden.size(0), weight.size(0), hidden.options());
  chunks.for_each([&](const Chunk& chunk) {
    const Tensor rows = chunk.of(hidden), logits = chunks.logits(rows, weight), logsumexp = logsumexp_of(logits);
    chunk.of(losses).copy_(logsumexp.sub(chosen_of(logits, chunk.of(words))));
    if (!needs_hidden && !needs_weight) return;
    to_gradient(logits, chunk.of(words), logsumexp, chunk.of(by_row));
    put_product(grad_hidden, chunk, logits, weight);
    add_product(sums, logits.t(), rows);
  });
  return {reduced(losses, target, reduction).to(hidden.scalar_type()), grad_hidden, rounded(sums, weight)};
}

// hidden, weight: of which a second derivative would depend.
inline Pair backward(
    const Tensor& grad_output,
    const Tensor& hidden,
    const Tensor& weight,
    const OptionalTensor& grad_hidden,
    const OptionalTensor& grad_weight) {
  const auto scaled = [&](const OptionalTensor& grad) { return grad ? grad->mul(grad_output) : Tensor(); };
  return {scaled(grad_hidden), scaled(grad_weight)};
}

// The loss and the logsumexp of each row, by chunks of the vocabulary.
inline Pair recompute_forward(
    const Tensor& hidden_in,
    const Tensor& weight,
    const Tensor& target,
    int64_t ignore_index,
    std::string_view reduction_name) {
  const Reduction reduction{ignore_index, reduction_name};
  check_inputs(hidden_in, weight, target, reduction);
  check_range(target, weight.size(0), ignore_index);
  const Tensor hidden = hidden_in.contiguous();
  const int64_t rows = hidden.size(0);
  const auto options = hidden.options().dtype(wide(hidden));
  // In float64: it is rounded with each chunk, and an error of it is one of all probabilities.
  Tensor running = at::full({rows}, -std::numeric_limits<double>::infinity(), options.dtype(at::kDouble));
  Tensor chosen = at::full({rows}, std::numeric_limits<double>::quiet_NaN(), options);
  const Chunks chunks(weight.size(0), rows, hidden.options());
  chunks.for_each([&](const Chunk& chunk) {
    const Tensor logits = chunks.logits(hidden, chunk.of(weight)), words = target.sub(chunk.first);
    at::logaddexp_out(running, running, logsumexp_of(logits));
    const Tensor inside = words.ge(0).logical_and_(words.lt(chunk.count));
    chosen = at::where(inside, chosen_of(logits, at::where(inside, words, 0)), chosen);
  });
  const Tensor logsumexp = running.to(chosen.scalar_type());
  return {reduced(logsumexp.sub(chosen), target, reduction).to(hidden.scalar_type()), logsumexp};
}

inline Pair recompute_backward(
    const Tensor& grad_output,
    const Tensor& hidden_in,
    const Tensor& weight_in,
    const Tensor& target,
    const Tensor& logsumexp,
    int64_t ignore_index,
    std::string_view reduction_name,
    bool needs_hidden,
    bool needs_weight) {
  const Tensor hidden = hidden_in.contiguous(), weight = weight_in.contiguous();
  const Tensor by_row = factors(target, {ignore_index, reduction_name}, wide(hidden)).mul_(grad_output);
  Tensor sums = empty_sums(hidden, needs_hidden), grad_weight = empty_parts(weight, needs_weight);
  const Chunks chunks(weight.size(0), hidden.size(0), hidden.options());
  chunks.for_each([&](const Chunk& chunk) {
    const Tensor words = chunk.of(weight), logits = chunks.logits(hidden, words);
    to_gradient(logits, target.sub(chunk.first), logsumexp, by_row);
    add_product(sums, logits, words);
    put_product(grad_weight, chunk, logits.t(), hidden);
  });
  return {rounded(sums, hidden), grad_weight};
}

}  // namespace autofn::linear_cross_entropy

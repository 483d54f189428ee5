// The part between the products on the CPU, a row at a time: logsumexp, and the gradient in the place of the logits.
#pragma once

#include <cmath>

#include "../../csrc/exponential.h"
#include "../../csrc/rows.h"

namespace autofn::linear_cross_entropy {

template <typename scalar_t>
using Vec = typename Lanes<scalar_t>::Vec;

template <typename scalar_t>
Vec<scalar_t> exponential(const Vec<scalar_t>& x) {
  return by_parts<scalar_t>([](auto v) { return exp_of_negative(v); }, x);
}

template <typename scalar_t>
at::opmath_type<scalar_t> logsumexp_row(const scalar_t* x, int64_t words) {
  using L = Lanes<scalar_t>;
  const auto largest = max_lanes<scalar_t>(words, [=](int64_t i, int64_t n) { return L::load(x + i, n); });
  if (std::isinf(largest)) return largest;
  const Vec<scalar_t> shift(largest);
  return largest + std::log(sum_lanes<scalar_t>(words, [=](int64_t i, int64_t n) {
           return exponential<scalar_t>(L::load(x + i, n) - shift);
         }));
}

// x = factor * (exp(x - logsumexp) - (1 at the target, if it is one of these words)).
template <typename scalar_t>
void gradient_row(
    scalar_t* x, int64_t words, int64_t target, at::opmath_type<scalar_t> logsumexp, at::opmath_type<scalar_t> factor) {
  using L = Lanes<scalar_t>;
  using Wide = typename L::Wide;
  const bool inside = target >= 0 && target < words;
  const Wide at_target = inside ? factor * std::expm1(static_cast<Wide>(x[target]) - logsumexp) : 0;
  const Vec<scalar_t> shift(logsumexp), by(factor);
  for_lanes<scalar_t>(
      words, [=](int64_t i, int64_t n) { L::store(by * exponential<scalar_t>(L::load(x + i, n) - shift), x + i, n); });
  if (inside) x[target] = static_cast<scalar_t>(at_target);
}

}  // namespace autofn::linear_cross_entropy

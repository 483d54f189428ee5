// One row of cross_entropy on the CPU: its loss and its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "../../csrc/exponential.h"
#include "../../csrc/rows.h"

namespace autofn::cross_entropy {

// Classes that are read again while they are in the first cache, 16 KiB of float: a row may have more than caches hold.
constexpr int64_t kBlock = 4096;

template <typename scalar_t>
using Vec = typename Lanes<scalar_t>::Vec;

template <typename scalar_t>
Vec<scalar_t> exponential(const Vec<scalar_t>& x) {
  return by_parts<scalar_t>([](auto v) { return exp_of_negative(v); }, x);
}

// log(sum(exp(x))) in one pass over memory: the sum is scaled anew where a block holds a larger number.
template <typename scalar_t>
at::opmath_type<scalar_t> logsumexp_of(const scalar_t* x, int64_t classes) {
  using L = Lanes<scalar_t>;
  using Wide = typename L::Wide;
  constexpr Wide lowest = -std::numeric_limits<Wide>::infinity();
  Wide largest = lowest, sum = 0;
  for (int64_t begin = 0; begin < classes; begin += kBlock) {
    const int64_t count = std::min(kBlock, classes - begin);
    const auto* block = x + begin;
    const Wide found = max_lanes<scalar_t>(count, [=](int64_t i, int64_t n) { return L::load(block + i, n); });
    // A NaN stays: its comparison is false.
    const Wide next = found <= largest ? largest : found;
    if (next == lowest) continue;
    const Vec<scalar_t> shift(next);
    // Meanwhile the next block or row is fetched: the maximum alone would wait for it.
    sum = sum * std::exp(largest - next) + sum_lanes<scalar_t>(count, [=](int64_t i, int64_t n) {
            __builtin_prefetch(block + count + i);
            return exponential<scalar_t>(L::load(block + i, n) - shift);
          });
    largest = next;
  }
  return largest + std::log(sum);
}

// What a class and a target count in a row: the weights, and how much of them is spread over all classes.
template <typename scalar_t>
struct Smoothing {
  using L = Lanes<scalar_t>;
  using Wide = typename L::Wide;

  const scalar_t* weight;  // null: all are 1
  int64_t classes;
  Wide at_target, at_each;
  Wide all_weights;

  Smoothing(const std::optional<at::Tensor>& weight_in, int64_t count, double label_smoothing)
      : weight(weight_in ? weight_in->const_data_ptr<scalar_t>() : nullptr),
        classes(count),
        at_target(1 - label_smoothing),
        at_each(label_smoothing / count),
        all_weights(count) {
    if (weight) all_weights = sum_lanes<scalar_t>(count, [w = weight](auto i, auto n) { return L::load(w + i, n); });
  }

  Wide weight_of(int64_t target) const { return weight ? static_cast<Wide>(weight[target]) : 1; }

  Wide loss(const scalar_t* x, int64_t target, Wide logsumexp) const {
    const Wide loss = at_target * weight_of(target) * (logsumexp - static_cast<Wide>(x[target]));
    if (at_each == 0) return loss;
    const Vec<scalar_t> shift(logsumexp);
    return loss + at_each * sum_lanes<scalar_t>(classes, [=, w = weight](int64_t i, int64_t n) {
                    const auto distance = shift - L::load(x + i, n);
                    return w ? distance * L::load(w + i, n) : distance;
                  });
  }

  // grad * (sum(q) * exp(x - logsumexp) - q), where q is at_target * weight at the target plus at_each * weight.
  template <bool kStream>
  void write_gradient(
      OutputRow<scalar_t, kStream> grad_x, const scalar_t* x, int64_t target, Wide logsumexp, Wide grad) const {
    constexpr int64_t width = L::kWidth;
    const Wide of_target = at_target * weight_of(target);
    const Vec<scalar_t> scale(grad * (of_target + at_each * all_weights)), shift(logsumexp), spread(grad * at_each);
    // The vector that holds the target's own part, in the lane that it will be needed in.
    std::array<Wide, width> own{};
    own[target % width] = grad * of_target;
    grad_x.write(
        [=, w = weight, first = target - target % width, at_first = L::load_wide(own.data())](int64_t i, int64_t n) {
          const auto p = scale * exponential<scalar_t>(L::load(x + i, n) - shift);
          const auto rest = p - (w ? spread * L::load(w + i, n) : spread);
          return i == first ? rest - at_first : rest;
        });
  }
};

}  // namespace autofn::cross_entropy

// The logistic function, together with its derivative.
#pragma once

#include "exponential.h"

namespace autofn {

// sigmoid(x) from the exponential of -|x|, which does not overflow. sigmoid(-x) is not 1 minus what is nearly 1, so the
// derivative keeps its digits on both sides. x: a Vectorized; NaN stays.
template <typename Vec>
struct Sigmoid {
  explicit Sigmoid(const Vec& x)
      : exponential(exp_of_negative(x | Vec(-0.0))),
        larger(Vec(1) / (Vec(1) + exponential)),
        value(Vec::blendv(larger, exponential * larger, x < Vec(0))) {}

  // sigmoid(x) * sigmoid(-x)
  Vec slope() const { return exponential * larger * larger; }

  Vec exponential, larger, value;
};

}  // namespace autofn

// The exponential of numbers of at most 0, such as the distances of a row from its largest.
#pragma once

#include <ATen/cpu/vec/functional.h>

#include <cstdint>
#include <type_traits>

namespace autofn {

// exp(x) = 2**n * exp(r), x = n * ln(2) + r, with a relative error of 1.3e-7 for x above -20 and 3.1e-7 below.
// at::vec's exp_u20 has one of 4e-7 with as many instructions, for numbers above 0 and for its clamps, and loses a NaN;
// its exp is a call. -infinity, and all whose exponential would be denormal, gives 0.
inline at::vec::Vectorized<float> exp_of_negative(const at::vec::Vectorized<float>& x) {
  using Vec = at::vec::Vectorized<float>;
  // Added to a float it leaves n + 127, an exponent's bits, in the lowest bits.
  const Vec magic(12582912.0f + 127.0f);
  const Vec shifted = fmadd(x, Vec(1.44269504f), magic);
  const Vec r = fmadd(shifted - magic, Vec(-0.693147182f), x);
  // Minimax, with a relative error of 2e-9.
  Vec power = fmadd(r, Vec(0.00138436456f), Vec(0.00837416109f));
  for (const float factor : {0.0416680016f, 0.166664317f, 0.49999994f, 1.0f, 1.0f})
    power = fmadd(r, power, Vec(factor));
  const auto bits = at::vec::cast<int32_t>(shifted) << at::vec::Vectorized<int32_t>(23);
  // The logarithm of the smallest normal number. The comparison is false for NaN.
  return power * at::vec::cast<float>(bits) & ~(x < Vec(-87.3365448f));
}

inline at::vec::Vectorized<double> exp_of_negative(const at::vec::Vectorized<double>& x) { return x.exp(); }

}  // namespace autofn

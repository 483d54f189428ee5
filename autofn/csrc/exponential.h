// The exponential of numbers of at most 0, such as the distances of a row from its largest.
#pragma once

#include <ATen/cpu/vec/functional.h>

#include <cstdint>
#include <type_traits>

namespace autofn {

// exp(x) = 2**n * exp(r), x = n * ln(2) + r, with a relative error of 4e-7 at most and the polynomial of at::vec's
// exp_u20. That one takes half as many instructions again, for numbers above 0 and for its clamps, and loses a NaN.
// -infinity, and all whose exponential would be denormal, gives 0.
inline at::vec::Vectorized<float> exp_of_negative(const at::vec::Vectorized<float>& x) {
  using Vec = at::vec::Vectorized<float>;
  // Added to a float it leaves n + 127, an exponent's bits, in the lowest bits.
  const Vec magic(12582912.0f + 127.0f);
  const Vec shifted = fmadd(x, Vec(1.44269504f), magic);
  const Vec r = fmadd(shifted - magic, Vec(-0.693147182f), x);
  Vec power = fmadd(r, Vec(0.00828929059f), Vec(0.0418978221f));
  for (const float factor : {0.166676521f, 0.499991506f, 0.999999701f, 1.0f}) power = fmadd(r, power, Vec(factor));
  const auto bits = at::vec::cast<int32_t>(shifted) << at::vec::Vectorized<int32_t>(23);
  // The logarithm of the smallest normal number. The comparison is false for NaN.
  return power * at::vec::cast<float>(bits) & ~(x < Vec(-87.3365448f));
}

inline at::vec::Vectorized<double> exp_of_negative(const at::vec::Vectorized<double>& x) { return x.exp(); }

}  // namespace autofn

// What the kernels of every device take for a sum of squares that lost nothing; no torch header.
#pragma once

#include <limits>

namespace autofn::norm {

// From here on, squares that underflowed are too small to count.
template <typename Wide>
constexpr Wide kLeastSquares = std::numeric_limits<Wide>::min() / std::numeric_limits<Wide>::epsilon();

}  // namespace autofn::norm

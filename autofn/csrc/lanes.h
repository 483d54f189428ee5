// Vectors in the float type of the arithmetic (float for half types), loaded from and stored to any float type.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/cpu/vec/functional.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace autofn {

// What a store past the caches must be aligned to.
constexpr uintptr_t kStreamAlignment = 32;

// After stores past the caches, before another thread may read them.
inline void stream_fence() {
#if defined(CPU_CAPABILITY_AVX2)
  _mm_sfence();
#endif
}

// As many elements as one vector of scalar_t holds.
template <typename scalar_t>
struct Lanes {
  using Wide = at::opmath_type<scalar_t>;
  static constexpr int kParts = sizeof(Wide) / sizeof(scalar_t);
  using Vec = at::vec::VectorizedN<Wide, kParts>;
  static constexpr int64_t kWidth = Vec::size();

  // Lanes past count are 0.
  static Vec load(const scalar_t* from, int64_t count = kWidth) {
    const auto narrow = at::vec::Vectorized<scalar_t>::loadu(from, count);
    if constexpr (kParts == 1) {
      return narrow;
    } else {
      return at::vec::convert<Wide, kParts, scalar_t, 1>(at::vec::VectorizedN<scalar_t, 1>(narrow));
    }
  }

  static void store(const Vec& values, scalar_t* to, int64_t count = kWidth) {
    if constexpr (kParts == 1) {
      values.store(to, static_cast<int>(count));
    } else {
      const at::vec::Vectorized<scalar_t> narrow = at::vec::convert<scalar_t, 1, Wide, kParts>(values);
      narrow.store(to, static_cast<int>(count));
    }
  }

  // A whole vector past the caches, to an address aligned to kStreamAlignment; a plain store without AVX2.
  static void stream(const Vec& values, scalar_t* to) {
#if defined(CPU_CAPABILITY_AVX2)
    if constexpr (std::is_same_v<scalar_t, float>) {
      _mm256_stream_ps(to, values[0]);
    } else if constexpr (std::is_same_v<scalar_t, double>) {
      _mm256_stream_pd(to, values[0]);
    } else {
      const at::vec::Vectorized<scalar_t> narrow = at::vec::convert<scalar_t, 1, Wide, kParts>(values);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), narrow);
    }
#else
    store(values, to);
#endif
  }

  // The accumulators are kept in the wide type, so they are loaded and stored without conversion. at::vec inlines what
  // counts no lanes, and calls a function where two parts are counted.
  static Vec load_wide(const Wide* from, int64_t count = kWidth) {
    return count == kWidth ? Vec::loadu(from) : Vec::loadu(from, count);
  }
  static void store_wide(const Vec& values, Wide* to, int64_t count = kWidth) {
    if (count == kWidth) {
      values.store(to);
    } else {
      values.store(to, static_cast<int>(count));
    }
  }
};

// body(offset, count) for every vector of n elements; count is a constant but for the last one.
template <typename scalar_t, typename Body>
void for_lanes(int64_t n, Body body) {
  constexpr int64_t width = Lanes<scalar_t>::kWidth;
  int64_t i = 0;
  for (; i + width <= n; i += width) body(i, width);
  if (i < n) body(i, n - i);
}

}  // namespace autofn

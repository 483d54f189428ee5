// Which elements are dropped: a hash of seed and element index, the same bits as in mask.py; no torch header.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define AUTOFN_EVERYWHERE __host__ __device__ __forceinline__
#else
#define AUTOFN_EVERYWHERE inline
#endif

namespace autofn::dropout {

constexpr uint32_t kStep = 0x9E3779B9u;

// The sum's high bits depend on all of the word, its low bits on both halves.
inline uint32_t spread(uint32_t word) { return word * kStep + (word >> 16) * 0x7FEB352Du; }

struct Draw {
  uint32_t first, second;
  // An element is dropped where its hash is below this: p * 2^32 of 2^32 hashes are.
  uint32_t threshold;

  Draw(double p, int64_t seed) {
    const auto low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
    second = high + spread(low);
    first = low + spread(second);
    threshold = static_cast<uint32_t>(p * 4294967296.0);
  }

  // What the hash of an element begins with: kStep more than that of the one before.
  AUTOFN_EVERYWHERE uint32_t state(uint32_t index) const { return index * kStep + first; }

  // The hash. Word: uint32_t, or a vector of them.
  template <typename Word>
  AUTOFN_EVERYWHERE Word mix(Word h) const {
    h = (h ^ h >> 17) * 0xED5AD4BBu ^ second;
    h = (h ^ h >> 11) * 0xAC4C1B51u;
    return (h ^ h >> 15) * 0x31848BABu;
  }

  AUTOFN_EVERYWHERE bool keeps(uint32_t index) const { return mix(state(index)) >= threshold; }
};

// What a kept element is multiplied by.
inline double scale(double p) { return 1 / (1 - p); }

}  // namespace autofn::dropout

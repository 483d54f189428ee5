// Which elements are dropped, on the CPU: a mask of vectors from the seed, written down in bits, or read from them.
#pragma once

#include <c10/macros/Macros.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../../csrc/lanes.h"
#include "hash.h"
#include "inputs.h"

namespace autofn::dropout {

// The mask of as many elements as are taken at once: a vector of them at least, and a byte of the packed mask at least.
// All bits of an element that is kept are set, none of one that is dropped.
template <typename scalar_t>
struct Keep {
  using L = Lanes<scalar_t>;
  using Wide = typename L::Wide;
  static constexpr int64_t kSize = std::max(L::kWidth, kBits);
  static constexpr int kPart = at::vec::Vectorized<Wide>::size();
  using Words [[gnu::vector_size(kPart * 4)]] = uint32_t;
  using Signed [[gnu::vector_size(kPart * 4)]] = int32_t;

  typename L::Vec vectors[kSize / L::kWidth];

  // body(part, offset) for each vector of Wide; offset: of its first element.
  template <typename Body>
  C10_ALWAYS_INLINE void for_parts(Body body) {
    for (int64_t i = 0; i < kSize; i += kPart) body(vectors[i / L::kWidth][i % L::kWidth / kPart], i);
  }

  // kept: -1 for an element that is kept, 0 for one that is dropped.
  static at::vec::Vectorized<Wide> widen(Signed kept) {
    using Integer = std::conditional_t<sizeof(Wide) == 8, int64_t, int32_t>;
    using Integers [[gnu::vector_size(kPart * sizeof(Wide))]] = Integer;
    const Integers wide = __builtin_convertvector(kept, Integers);
    return at::vec::Vectorized<Wide>::loadu(&wide);
  }
};

// The mask from the seed.
template <typename scalar_t>
class Drawn {
  using Mask = Keep<scalar_t>;

 public:
  Drawn(int64_t first, const Draw& draw) : draw_(draw) {
    for (int k = 0; k < Mask::kPart; ++k) state_[k] = draw.state(static_cast<uint32_t>(first + k));
  }

  C10_ALWAYS_INLINE void next(Mask& keep, int64_t) {
    keep.for_parts([&](auto& part, int64_t) {
      part = Mask::widen(draw_.mix(state_) >= draw_.threshold);
      state_ += Mask::kPart * kStep;
    });
  }

 private:
  Draw draw_;
  typename Mask::Words state_;
};

// The mask from the seed, and written down: the first element of a byte is its lowest bit.
template <typename scalar_t>
class Packed {
  using Mask = Keep<scalar_t>;

 public:
  Packed(int64_t first, const Draw& draw, uint8_t* mask) : drawn_(first, draw), to_(mask + first / kBits) {}

  C10_ALWAYS_INLINE void next(Mask& keep, int64_t count) {
    drawn_.next(keep, count);
    uint8_t bytes[Mask::kSize / kBits] = {};
    keep.for_parts([&](const auto& part, int64_t i) {
      const int kept = ~part.zero_mask() & ((1 << Mask::kPart) - 1);
      bytes[i / kBits] |= static_cast<uint8_t>(kept << i % kBits);
    });
    std::memcpy(to_, bytes, bytes_of(count));
    to_ += bytes_of(count);
  }

 private:
  Drawn<scalar_t> drawn_;
  uint8_t* to_;
};

// The mask as it was written down.
template <typename scalar_t>
class Unpacked {
  using Mask = Keep<scalar_t>;

 public:
  Unpacked(int64_t first, const uint8_t* mask) : from_(mask + first / kBits) {}

  C10_ALWAYS_INLINE void next(Mask& keep, int64_t count) {
    uint8_t bytes[Mask::kSize / kBits] = {};
    std::memcpy(bytes, from_, bytes_of(count));
    from_ += bytes_of(count);
    keep.for_parts([&](auto& part, int64_t i) {
      typename Mask::Words bits;
      for (int k = 0; k < Mask::kPart; ++k) bits[k] = uint32_t{1} << (i % kBits + k);
      part = Mask::widen((bits & bytes[i / kBits]) != 0);
    });
  }

 private:
  const uint8_t* from_;
};

}  // namespace autofn::dropout

// Which elements of a contiguous tensor share a step; no torch header, for kernel.cu includes it too.
#pragma once

#include <cstdint>

namespace autofn::fake_quantize {

// The tensor as (outer, channels, inner): a line of `inner` elements has one step. Lines are cut into pieces, so that
// threads share a long one, and its sum is one of short sums in an order that no number of threads changes.
struct Layout {
  static constexpr int64_t kPiece = 4096;

  int64_t outer = 1, channels = 1, inner = 1;

  constexpr int64_t elements() const { return outer * channels * inner; }
  // The step differs from element to element.
  constexpr bool is_rows() const { return inner == 1 && channels > 1; }
  constexpr int64_t pieces_of_line() const { return (inner + kPiece - 1) / kPiece; }
  constexpr int64_t pieces() const { return outer * channels * pieces_of_line(); }

  // The first element of a piece, and the number of its elements.
  constexpr int64_t first_of(int64_t piece) const {
    return piece / pieces_of_line() * inner + piece % pieces_of_line() * kPiece;
  }
  constexpr int64_t count_of(int64_t piece) const {
    const int64_t rest = inner - piece % pieces_of_line() * kPiece;
    return rest < kPiece ? rest : kPiece;
  }
  constexpr int64_t channel_of(int64_t piece) const { return piece / pieces_of_line() % channels; }
};

// quant_min and quant_max.
struct Range {
  int64_t low, high;
};

}  // namespace autofn::fake_quantize

// Passes over rows, the last dimension of a contiguous tensor, and reductions of a row to one number.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <limits>

#include "elementwise.h"
#include "lanes.h"

namespace autofn {

// Rows a thread takes at least, so that it has kGrain elements.
inline int64_t row_grain(int64_t columns) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns)); }

// op over n elements of term(offset, count), where `identity` stands for the lanes past count. Four results grow at
// once: one alone would wait for each step before the next.
template <typename scalar_t, typename Op, typename Term>
at::opmath_type<scalar_t> reduce_lanes(int64_t n, at::opmath_type<scalar_t> identity, Op op, Term term) {
  using Vec = typename Lanes<scalar_t>::Vec;
  using Wide = typename Lanes<scalar_t>::Wide;
  constexpr int64_t width = Lanes<scalar_t>::kWidth;
  const Vec none(identity);
  Vec found[4] = {none, none, none, none};
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    for (int k = 0; k < 4; ++k) found[k] = op(found[k], term(i + k * width, width));
  }
  for (; i + width <= n; i += width) found[0] = op(found[0], term(i, width));
  if (i < n) found[1] = op(found[1], Vec::set(none, term(i, n - i), n - i));
  return at::vec::vec_reduce_all<Wide, Lanes<scalar_t>::kParts>(op, op(op(found[0], found[1]), op(found[2], found[3])));
}

// The sum of term(offset, count); what its lanes past count hold does not matter.
template <typename scalar_t, typename Term>
at::opmath_type<scalar_t> sum_lanes(int64_t n, Term term) {
  return reduce_lanes<scalar_t>(n, 0, [](const auto& a, const auto& b) { return a + b; }, term);
}

// The sums of the N vectors that term(offset, count) returns as an array, in one pass.
template <typename scalar_t, size_t N, typename Term>
std::array<at::opmath_type<scalar_t>, N> sums_of_lanes(int64_t n, Term term) {
  using Vec = typename Lanes<scalar_t>::Vec;
  using Wide = typename Lanes<scalar_t>::Wide;
  constexpr int64_t width = Lanes<scalar_t>::kWidth;
  const Vec none(0);
  std::array<Vec, N> even, odd;
  even.fill(none);
  odd.fill(none);
  const auto add = [](std::array<Vec, N>& sums, const std::array<Vec, N>& more) {
    for (size_t j = 0; j < N; ++j) sums[j] = sums[j] + more[j];
  };
  int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    add(even, term(i, width));
    add(odd, term(i + width, width));
  }
  for (; i < n; i += width) {
    const int64_t count = std::min(width, n - i);
    auto last = term(i, count);
    for (auto& each : last) each = Vec::set(none, each, count);
    add(even, last);
  }
  std::array<Wide, N> found;
  for (size_t j = 0; j < N; ++j) {
    found[j] = at::vec::vec_reduce_all<Wide, Lanes<scalar_t>::kParts>(
        [](const auto& a, const auto& b) { return a + b; }, even[j] + odd[j]);
  }
  return found;
}

// The largest of term(offset, count), -infinity where n is 0; a NaN wins, as in torch.amax.
template <typename scalar_t, typename Term>
at::opmath_type<scalar_t> max_lanes(int64_t n, Term term) {
  constexpr auto lowest = -std::numeric_limits<at::opmath_type<scalar_t>>::infinity();
  return reduce_lanes<scalar_t>(n, lowest, [](const auto& a, const auto& b) { return at::vec::maximum(a, b); }, term);
}

// body(row) for all rows, in parallel.
template <typename Body>
void for_rows(int64_t rows, int64_t columns, Body body) {
  at::parallel_for(0, rows, row_grain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

// One row of an output.
template <typename scalar_t, bool kStream>
struct OutputRow {
  scalar_t* to;
  int64_t columns;

  // to[i] = term(offset, count), past the caches where kStream says so.
  template <typename Term>
  void write(Term term) const {
    for_lanes<scalar_t>(
        columns, [&](int64_t i, int64_t count) { put<scalar_t, kStream>(term(i, count), to + i, count); });
  }
};

template <typename scalar_t, bool kStream, typename Body>
void write_rows(const at::Tensor& out, int64_t columns, Body body) {
  auto* to = out.mutable_data_ptr<scalar_t>();
  at::parallel_for(0, out.numel() / columns, row_grain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(OutputRow<scalar_t, kStream>{to + row * columns, columns}, row);
    if (kStream) stream_fence();
  });
}

// body(an OutputRow, its index) for every row of a contiguous tensor, in parallel; each must be written once.
template <typename scalar_t, typename Body>
void write_rows(const at::Tensor& out, Body body) {
  if (out.numel() == 0) return;
  const int64_t columns = out.size(-1);
  if (is_streamed(out) && columns * sizeof(scalar_t) % kStreamAlignment == 0) {
    write_rows<scalar_t, true>(out, columns, body);
  } else {
    write_rows<scalar_t, false>(out, columns, body);
  }
}

}  // namespace autofn

// The sum over the rows of a matrix, as the gradient of a bias needs it: in float at least, rounded once.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "lanes.h"
#include "rows.h"

namespace autofn {

// Rows that are summed before their sum is carried to the total: a chain of thousands of additions would round away
// digits that the sum in pairs of eager PyTorch keeps.
constexpr int64_t kBlockRows = 64;

// For each thread two rows of zeros in the float type of the arithmetic: the block's sums, then the total.
inline at::Tensor partial_sums(const at::Tensor& like, int64_t columns) {
  const auto wide = at::toOpMathType(like.scalar_type());
  return at::zeros({2 * at::get_num_threads(), columns}, like.options().dtype(wide));
}

// The calling thread's two rows.
template <typename Wide>
Wide* own_sums(Wide* partial, int64_t columns) {
  return partial + 2 * columns * at::get_thread_num();
}

// Adds the block's sums to the total after each kBlockRows rows; `done` counts the rows that the thread has added.
template <typename scalar_t>
void carry(at::opmath_type<scalar_t>* own, int64_t columns, int64_t done) {
  using L = Lanes<scalar_t>;
  if (done % kBlockRows != 0) return;
  for_lanes<scalar_t>(columns, [&](int64_t j, int64_t n) {
    auto* total = own + columns + j;
    L::store_wide(L::load_wide(total, n) + L::load_wide(own + j, n), total, n);
    L::store_wide(typename L::Vec(0), own + j, n);
  });
}

// The sum of all threads' rows, rounded once.
inline at::Tensor total(const at::Tensor& partial, at::ScalarType dtype) { return at::sum(partial, 0).to(dtype); }

template <typename scalar_t>
void add_rows(at::opmath_type<scalar_t>* own, const scalar_t* rows, int64_t count, int64_t columns) {
  using L = Lanes<scalar_t>;
  // Four rows at a time: a quarter of the traffic to the sums.
  int64_t row = 0;
  for (; row + 4 <= count; row += 4, rows += 4 * columns) {
    for_lanes<scalar_t>(columns, [&](int64_t j, int64_t n) {
      const auto* p = rows + j;
      const auto pair = L::load(p, n) + L::load(p + columns, n);
      const auto next = L::load(p + 2 * columns, n) + L::load(p + 3 * columns, n);
      L::store_wide(L::load_wide(own + j, n) + (pair + next), own + j, n);
    });
    carry<scalar_t>(own, columns, row + 4);
  }
  for (; row < count; ++row, rows += columns) {
    for_lanes<scalar_t>(columns, [&](int64_t j, int64_t n) {
      L::store_wide(L::load_wide(own + j, n) + L::load(rows + j, n), own + j, n);
    });
  }
}

// matrix: (rows, columns), contiguous. Returns (columns,) in its dtype.
inline at::Tensor column_sum(const at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  at::Tensor partial = partial_sums(matrix, columns);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, matrix.scalar_type(), "column_sum", [&] {
    auto* sums = partial.mutable_data_ptr<at::opmath_type<scalar_t>>();
    const auto* values = matrix.const_data_ptr<scalar_t>();
    at::parallel_for(0, rows, row_grain(columns), [&](int64_t begin, int64_t end) {
      add_rows(own_sums(sums, columns), values + begin * columns, end - begin, columns);
    });
  });
  return total(partial, matrix.scalar_type());
}

}  // namespace autofn

// Ranges of rows or of the vocabulary, the logits of one, and what products with them give.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "inputs.h"

namespace autofn::linear_cross_entropy {

using at::Tensor;

// A range of rows or of the vocabulary.
struct Chunk {
  int64_t first, count;

  Tensor of(const Tensor& tensor) const { return tensor.narrow(0, first, count); }
};

// Ranges of `total` rows or words, each with room for its logits. How many: see chunked.py.
class Chunks {
 public:
  Chunks(int64_t total, int64_t other, const at::TensorOptions& options)
      : total_(total), each_(std::max<int64_t>(32, most(options) / std::max<int64_t>(1, other))) {
    room_ = at::empty({std::min(total, each_) * other}, options);
  }

  // body(chunk) for each.
  template <typename Body>
  void for_each(Body body) const {
    for (int64_t first = 0; first < total_; first += each_) body(Chunk{first, std::min(each_, total_ - first)});
  }

  // a @ b.T, in the room.
  Tensor logits(const Tensor& a, const Tensor& b) const {
    const int64_t rows = a.size(0), words = b.size(0);
    Tensor out = room_.narrow(0, 0, rows * words).view({rows, words});
    at::mm_out(out, a, b.t());
    return out;
  }

 private:
  static int64_t most(const at::TensorOptions& options) { return int64_t{1} << (options.device().is_cpu() ? 20 : 26); }

  int64_t total_, each_;
  Tensor room_;
};

// The gradient of hidden or of weight: parts are products of their own, sums grow by a product with each chunk.
inline Tensor empty_parts(const Tensor& like, bool needed) { return needed ? at::empty_like(like) : Tensor(); }

inline Tensor empty_sums(const Tensor& like, bool needed) {
  return needed ? at::zeros(like.sizes(), like.options().dtype(wide(like))) : Tensor();
}

inline void put_product(const Tensor& parts, const Chunk& chunk, const Tensor& a, const Tensor& b) {
  if (!parts.defined()) return;
  Tensor part = chunk.of(parts);
  at::mm_out(part, a, b);
}

inline void add_product(Tensor& sums, const Tensor& a, const Tensor& b) {
  if (!sums.defined()) return;
  if (sums.scalar_type() == a.scalar_type()) {
    sums.addmm_(a, b);
  } else {
    sums.add_(at::mm(a, b));
  }
}

inline Tensor rounded(const Tensor& sums, const Tensor& like) {
  return sums.defined() ? sums.to(like.scalar_type()) : Tensor();
}

}  // namespace autofn::linear_cross_entropy

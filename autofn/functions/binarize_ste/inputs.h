// What the operators of binarize_ste share on every device: the check of the arguments, and the bits of the window.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace autofn::binarize_ste {

// Elements whose bits share a word, the first in the lowest bit.
constexpr int64_t kWordBits = 32;

inline void check_input(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.is_floating_point(), "binarize_ste: x must hold floating point numbers, got ", x.scalar_type());
}

// (ceil(elements / 32),): a bit an element of x, in the order of its memory.
inline at::Tensor empty_words(const at::Tensor& x) {
  return at::empty_symint({(x.sym_numel() + (kWordBits - 1)) / kWordBits}, x.options().dtype(at::kInt));
}

}  // namespace autofn::binarize_ste

// Rotary position embedding on the CPU. The formula and what is saved: see __init__.py.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "../../csrc/find.h"
#include "../../csrc/rows.h"
#include "inputs.h"

namespace {

using at::Tensor;

// How far ahead x is fetched into the caches. Left to itself the processor falls behind with the tables and both halves
// of a row to follow: with tables too large for the first-level cache a turn takes half as long again.
constexpr int64_t kAheadBytes = 4096;

// The turn of one row.
template <typename scalar_t, bool kStream>
struct RowTurn {
  using L = autofn::Lanes<scalar_t>;
  using Vec = typename L::Vec;
  using Pair = std::array<Vec, 2>;

  scalar_t* y;
  const scalar_t* x;
  const scalar_t* cos;
  const scalar_t* sin;
  int64_t features, pairs;
  Vec sign;  // 1, or -1 for the opposite angle

  void halves() const {
    autofn::for_lanes<scalar_t>(pairs, [&](int64_t i, int64_t n) {
      const auto [a, b] = turned({load(i, n), load(pairs + i, n)}, i, n);
      put(a, i, n);
      put(b, pairs + i, n);
    });
    pass();
  }

  void interleaved() const {
    autofn::for_lanes<scalar_t>(pairs, [&](int64_t i, int64_t n) {
      const int64_t first = std::min(2 * n, L::kWidth), second = 2 * n - first;
      const auto [low, high] = join(turned(split({load(2 * i, first), load(2 * i + first, second)}), i, n));
      put(low, 2 * i, first);
      put(high, 2 * i + first, second);
    });
    pass();
  }

 private:
  Vec load(int64_t i, int64_t n) const {
    __builtin_prefetch(x + i + kAheadBytes / sizeof(scalar_t));
    return L::load(x + i, n);
  }

  void put(const Vec& values, int64_t i, int64_t n) const { autofn::put<scalar_t, kStream>(values, y + i, n); }

  Pair turned(const Pair& pair, int64_t i, int64_t n) const {
    const auto& [a, b] = pair;
    const Vec along = L::load(cos + i, n), across = L::load(sin + i, n) * sign;
    return {a * along - b * across, b * along + a * across};
  }

  // The features that have no angle.
  void pass() const {
    for (int64_t i = 2 * pairs; i < features; i += L::kWidth) {
      const int64_t n = std::min(L::kWidth, features - i);
      put(load(i, n), i, n);
    }
  }

  // a0 b0 a1 b1 ... in two vectors -> a0 a1 ... and b0 b1 ...
  static Pair split(const Pair& mixed) {
    Pair out;
    for (int k = 0; k < L::kParts; ++k)
      std::tie(out[0][k], out[1][k]) = at::vec::deinterleave2(part(mixed, 2 * k), part(mixed, 2 * k + 1));
    return out;
  }

  static Pair join(const Pair& apart) {
    Pair out;
    for (int k = 0; k < L::kParts; ++k)
      std::tie(part(out, 2 * k), part(out, 2 * k + 1)) = at::vec::interleave2(apart[0][k], apart[1][k]);
    return out;
  }

  // Part j of two vectors, one after the other.
  template <typename P>
  static auto& part(P& pair, int j) {
    return pair[j / L::kParts][j % L::kParts];
  }
};

// y: (..., positions, features), its rows written past the caches where kStream says so.
template <typename scalar_t, bool kStream>
void turn_rows(const Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, int sign) {
  const int64_t positions = x.size(-2), pairs = cos.size(1);
  const auto* from = x.const_data_ptr<scalar_t>();
  const auto* c = cos.const_data_ptr<scalar_t>();
  const auto* s = sin.const_data_ptr<scalar_t>();
  using Row = RowTurn<scalar_t, kStream>;
  autofn::write_rows<scalar_t, kStream>(y, x.size(-1), [=](auto out, int64_t i) {
    const int64_t angle = i % positions * pairs;
    const Row row{out.to, from + i * out.columns, c + angle, s + angle, out.columns, pairs, typename Row::Vec(sign)};
    interleaved ? row.interleaved() : row.halves();
  });
}

// Whether rows, and the second half of what is turned, begin at aligned addresses.
bool is_streamed(const Tensor& y, int64_t pairs) {
  const int64_t bytes = y.element_size();
  return autofn::is_streamed(y) && y.size(-1) * bytes % autofn::kStreamAlignment == 0 &&
         pairs * bytes % autofn::kStreamAlignment == 0;
}

Tensor turn_cpu(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved, bool opposite) {
  autofn::rope::check_inputs(x_in, cos_in, sin_in);
  const Tensor x = x_in.contiguous(), cos = cos_in.contiguous(), sin = sin_in.contiguous();
  Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rope_cpu", [&] {
    const auto turn = is_streamed(y, cos.size(1)) ? &turn_rows<scalar_t, true> : &turn_rows<scalar_t, false>;
    turn(y, x, cos, sin, interleaved, opposite ? -1 : 1);
  });
  return y;
}

Tensor turn_meta(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, bool opposite) {
  autofn::rope::check_inputs(x, cos, sin);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

// Its backward is the operator itself, so it can be differentiated any number of times.
class Rope : public torch::autograd::Function<Rope> {
 public:
  static Tensor forward(
      torch::autograd::AutogradContext* ctx,
      const Tensor& x,
      const Tensor& cos,
      const Tensor& sin,
      bool interleaved,
      bool opposite) {
    refuse_gradient("cos", cos);
    refuse_gradient("sin", sin);
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor y = turn(x, cos, sin, interleaved, opposite);
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    ctx->saved_data["opposite"] = opposite;
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list& grad_outputs) {
    const auto tables = ctx->get_saved_variables();
    const bool interleaved = ctx->saved_data["interleaved"].toBool(), opposite = ctx->saved_data["opposite"].toBool();
    return {
        turn(grad_outputs[0], tables[0], tables[1], interleaved, !opposite), Tensor(), Tensor(), Tensor(), Tensor()};
  }

 private:
  static Tensor turn(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, bool opposite) {
    static const auto op = autofn::find<decltype(turn_cpu)>("autofn::rope");
    return op.call(x, cos, sin, interleaved, opposite);
  }

  // It would silently get none.
  static void refuse_gradient(const char* name, const Tensor& table) {
    TORCH_CHECK_VALUE(
        !table.requires_grad(), "rope: ", name, " must not require grad, it has no gradient here; hand in ", name,
        ".detach()");
  }
};

Tensor turn_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, bool opposite) {
  return Rope::apply(x, cos, sin, interleaved, opposite);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(autofn, m) {
  m.def("rope(Tensor x, Tensor cos, Tensor sin, bool interleaved, bool opposite=False) -> Tensor");
}
TORCH_LIBRARY_IMPL(autofn, CPU, m) { m.impl("rope", &turn_cpu); }
TORCH_LIBRARY_IMPL(autofn, Meta, m) { m.impl("rope", &turn_meta); }
TORCH_LIBRARY_IMPL(autofn, Autograd, m) { m.impl("rope", &turn_autograd); }

// The GEGLU gate on CUDA: one functor a pass and approximation. Launchers only, no torch header; kernel_cuda.cpp calls
// them.
#include "../../csrc/elementwise.cuh"

namespace autofn::geglu_cuda {

// From here on p is 0 or 1 and does not change, in float64 too.
constexpr int kFar = 40;

// At least -kFar and at most kFar. Comparisons that are false for NaN, so that NaN stays.
template <typename W>
__device__ W at_least(W x) {
  return x < -kFar ? -kFar : x;
}
template <typename W>
__device__ W cut_off(W x) {
  return x > kFar ? kFar : at_least(x);
}

// gate * Phi(gate), and its derivative.
template <typename W>
struct Exact {
  __device__ explicit Exact(W gate)
      : x(cut_off(gate)), p(W(0.5) * ::erfc(-W(0.70710678118654752) * x)), value(at_least(gate) * p) {}
  __device__ W slope() const { return p + x * W(0.39894228040143268) * ::exp(W(-0.5) * x * x); }

  W x, p, value;
};

// gate * sigmoid(2 * u), and its derivative. Both sigmoid(2 * u) and sigmoid(-2 * u) come from the exponential of a
// number below 0: neither overflows, neither is 1 minus what is nearly 1.
template <typename W>
struct Tanh {
  __device__ explicit Tanh(W gate)
      : x(cut_off(gate)),
        exponential(::exp(-::fabs(kScale * x * (1 + kCube * x * x)))),
        larger(1 / (1 + exponential)),
        p(x < 0 ? exponential * larger : larger),
        value(at_least(gate) * p) {}
  __device__ W slope() const { return p + x * kScale * (1 + 3 * kCube * x * x) * exponential * larger * larger; }

  // 2 * u = kScale * (x + kCube * x**3)
  static constexpr W kScale = W(1.5957691216057308), kCube = W(0.044715);
  W x, exponential, larger, p, value;
};

template <template <typename> typename Activation>
struct Forward {
  template <typename W>
  __device__ W operator()(W gate, W up) const {
    return Activation<W>(gate).value * up;
  }
};

template <template <typename> typename Activation>
struct Both {
  template <typename W>
  __device__ Values<W, 2> operator()(W grad_output, W gate, W up) const {
    const Activation<W> gelu(gate);
    return {{grad_output * up * gelu.slope(), grad_output * gelu.value}};
  }
};

template <template <typename> typename Activation>
struct GradGate {
  template <typename W>
  __device__ W operator()(W grad_output, W gate, W up) const {
    return grad_output * up * Activation<W>(gate).slope();
  }
};

template <template <typename> typename Activation>
struct GradUp {
  template <typename W>
  __device__ W operator()(W grad_output, W gate) const {
    return grad_output * Activation<W>(gate).value;
  }
};

template <typename T>
void forward(T* y, const T* gate, const T* up, bool is_tanh, int64_t n, cudaStream_t stream) {
  if (is_tanh) {
    map(y, n, Forward<Tanh>{}, stream, gate, up);
  } else {
    map(y, n, Forward<Exact>{}, stream, gate, up);
  }
}

template <template <typename> typename Activation, typename T>
void gradients(
    T* grad_gate, T* grad_up, const T* grad_output, const T* gate, const T* up, int64_t n, cudaStream_t stream) {
  if (grad_gate && grad_up) {
    map_to(Outputs<T, 2>{{grad_gate, grad_up}}, n, Both<Activation>{}, stream, grad_output, gate, up);
  } else if (grad_gate) {
    map(grad_gate, n, GradGate<Activation>{}, stream, grad_output, gate, up);
  } else if (grad_up) {
    map(grad_up, n, GradUp<Activation>{}, stream, grad_output, gate);
  }
}

// grad_gate or grad_up is null where it is not needed; without grad_gate, up is not read.
template <typename T>
void backward(
    T* grad_gate,
    T* grad_up,
    const T* grad_output,
    const T* gate,
    const T* up,
    bool is_tanh,
    int64_t n,
    cudaStream_t stream) {
  if (is_tanh) {
    gradients<Tanh>(grad_gate, grad_up, grad_output, gate, up, n, stream);
  } else {
    gradients<Exact>(grad_gate, grad_up, grad_output, gate, up, n, stream);
  }
}

#define LAUNCHERS(T)                                                             \
  template void forward<T>(T*, const T*, const T*, bool, int64_t, cudaStream_t); \
  template void backward<T>(T*, T*, const T*, const T*, const T*, bool, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::geglu_cuda

// The SwiGLU gate on CUDA: one functor a pass. Launchers only, no torch header; kernel_cuda.cpp calls them.
#include "../../csrc/elementwise.cuh"

namespace autofn::swiglu_cuda {

// gate * sigmoid(gate), and its derivative.
template <typename W>
struct Silu {
  __device__ explicit Silu(W gate) : s(1 / (1 + ::exp(-gate))), value(gate * s) {}
  __device__ W slope() const { return s + value * (1 - s); }

  W s, value;
};

struct Forward {
  template <typename W>
  __device__ W operator()(W gate, W up) const {
    return Silu<W>(gate).value * up;
  }
};

struct Both {
  template <typename W>
  __device__ Values<W, 2> operator()(W grad_output, W gate, W up) const {
    const Silu<W> silu(gate);
    return {{grad_output * up * silu.slope(), grad_output * silu.value}};
  }
};

struct GradGate {
  template <typename W>
  __device__ W operator()(W grad_output, W gate, W up) const {
    return grad_output * up * Silu<W>(gate).slope();
  }
};

struct GradUp {
  template <typename W>
  __device__ W operator()(W grad_output, W gate) const {
    return grad_output * Silu<W>(gate).value;
  }
};

template <typename T>
void forward(T* y, const T* gate, const T* up, int64_t n, cudaStream_t stream) {
  map(y, n, Forward{}, stream, gate, up);
}

// grad_gate or grad_up is null where it is not needed; without grad_gate, up is not read.
template <typename T>
void backward(
    T* grad_gate, T* grad_up, const T* grad_output, const T* gate, const T* up, int64_t n, cudaStream_t stream) {
  if (grad_gate && grad_up) {
    map_to(Outputs<T, 2>{{grad_gate, grad_up}}, n, Both{}, stream, grad_output, gate, up);
  } else if (grad_gate) {
    map(grad_gate, n, GradGate{}, stream, grad_output, gate, up);
  } else if (grad_up) {
    map(grad_up, n, GradUp{}, stream, grad_output, gate);
  }
}

#define LAUNCHERS(T)                                                       \
  template void forward<T>(T*, const T*, const T*, int64_t, cudaStream_t); \
  template void backward<T>(T*, T*, const T*, const T*, const T*, int64_t, cudaStream_t);
AUTOFN_FOR_FLOAT_TYPES(LAUNCHERS)

}  // namespace autofn::swiglu_cuda

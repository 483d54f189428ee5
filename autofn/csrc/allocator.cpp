// Counts what PyTorch allocates on the CPU, to the byte and in all threads, by wrapping its allocator.
//
// A window is a stretch of time: it counts the blocks allocated within it, until each is freed, whenever that is. What
// was allocated earlier is in no later window, so that a cache slot that is overwritten shows as what was put in, not
// as zero. Unseen: memory that does not come from c10's CPU allocator (NumPy, shared memory, the scratch of oneDNN and
// of compiled kernels), and storages made before the installation, which keep their own allocator.
#include "allocator.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace {

class Window {
 public:
  void add(int64_t bytes) {
    allocated_ += bytes;
    raise_peak(live_ += bytes);
  }
  void remove(int64_t bytes) { live_ -= bytes; }

  // Emptied first and raised after: a peak that another thread reaches in between is either kept or was before.
  void reset_peak() {
    peak_ = 0;
    raise_peak(live_);
  }

  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  int64_t allocated() const { return allocated_; }

 private:
  void raise_peak(int64_t live) {
    int64_t seen = peak_;
    while (live > seen && !peak_.compare_exchange_weak(seen, live)) {}
  }

  std::atomic<int64_t> live_{0}, peak_{0}, allocated_{0};
};

// Windows are never freed: a block may outlive the one that it was allocated in. One is 24 bytes.
std::atomic<Window*> current{nullptr};

struct Block {
  c10::DataPtr base;
  Window* window;
  int64_t bytes;
};

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  block->base.clear();
  block->window->remove(block->bytes);
  delete block;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr base = base_->allocate(bytes);
    if (!base.get()) return base;
    void* data = base.get();
    const c10::Device device = base.device();
    auto block = std::make_unique<Block>(Block{std::move(base), current.load(), static_cast<int64_t>(bytes)});
    block->window->add(block->bytes);
    return {data, block.release(), &free_block, device};
  }

  // The context is not the data, so the raw interface is not to be had.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  // Copy-on-write asks it: ours is an ordinary owner of its data, though its context is not the data's address.
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get_deleter() == &free_block; }

  void copy_data(void* to, const void* from, std::size_t count) const override { base_->copy_data(to, from, count); }

 private:
  c10::Allocator* base_;
};

// Replaces the allocator once, for the rest of the process. The strongest priority, for others may have registered too.
bool install() {
  static CountingAllocator* counting = [] {
    current = new Window;
    return new CountingAllocator(c10::GetCPUAllocator());
  }();
  c10::SetCPUAllocator(counting, UINT8_MAX);
  return c10::GetCPUAllocator() == counting;
}

const Window* window_or_error() {
  const Window* window = current;
  if (!window) PyErr_SetString(PyExc_RuntimeError, "allocator: it counts nothing yet; call allocator_install() first");
  return window;
}

PyObject* python_install(PyObject*, PyObject*) {
  if (!install()) {
    PyErr_SetString(PyExc_RuntimeError, "allocator: PyTorch kept its own allocator; nothing would be counted");
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* python_start(PyObject*, PyObject*) {
  if (!window_or_error()) return nullptr;
  current = new Window;
  Py_RETURN_NONE;
}

PyObject* python_reset_peak(PyObject*, PyObject*) {
  if (!window_or_error()) return nullptr;
  current.load()->reset_peak();
  Py_RETURN_NONE;
}

template <int64_t (Window::*figure)() const>
PyObject* python_figure(PyObject*, PyObject*) {
  const Window* window = window_or_error();
  return window ? PyLong_FromLongLong((window->*figure)()) : nullptr;
}

}  // namespace

namespace autofn {

PyMethodDef* allocator_methods() {
  static PyMethodDef methods[] = {
      {"allocator_install", python_install, METH_NOARGS, "Counts from here on, for the rest of the process."},
      {"allocator_start", python_start, METH_NOARGS, "Opens a new window: what was allocated before is not in it."},
      {"allocator_live_bytes", python_figure<&Window::live>, METH_NOARGS, "Allocated in the window and not yet freed."},
      {"allocator_peak_bytes", python_figure<&Window::peak>, METH_NOARGS, "The most that was live since the reset."},
      {"allocator_reset_peak", python_reset_peak, METH_NOARGS, "Lowers the peak to what is live."},
      {"allocator_allocated_bytes", python_figure<&Window::allocated>, METH_NOARGS, "All that the window allocated."},
      {nullptr, nullptr, 0, nullptr},
  };
  return methods;
}

}  // namespace autofn

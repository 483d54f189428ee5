// Counts what PyTorch allocates on the CPU, to the byte and in all threads, by wrapping its allocator.
//
// A window is a stretch of time: it counts the blocks allocated within it, until each is freed, whenever that is. What
// was allocated earlier is not in it, so that a cache slot that is overwritten shows as what was put in, not as zero.
// Unseen: memory that does not come from c10's CPU allocator (NumPy's, shared memory, the scratch of compiled kernels),
// and storages made before the installation, which keep their own allocator.
#include "allocator.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace {

struct Figures {
  int64_t live = 0, peak = 0, allocated = 0;
};

class Ledger {
 public:
  void add(void* data, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget(data);
    blocks_[data] = {window_, bytes};
    figures_.allocated += bytes;
    figures_.live += bytes;
    figures_.peak = std::max(figures_.peak, figures_.live);
  }

  void remove(void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget(data);
  }

  void start() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++window_;
    figures_ = {};
  }

  void reset_peak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    figures_.peak = figures_.live;
  }

  Figures figures() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return figures_;
  }

 private:
  struct Block {
    int64_t window, bytes;
  };

  // Does nothing for an unknown block: one from before the installation.
  void forget(void* data) {
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return;
    if (found->second.window == window_) figures_.live -= found->second.bytes;
    blocks_.erase(found);
  }

  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  int64_t window_ = 0;
  Figures figures_;
};

// Never destroyed: blocks are freed until the process ends.
Ledger& ledger() {
  static auto* found = new Ledger;
  return *found;
}

c10::DeleterFnPtr base_deleter = nullptr;

// Forgotten before it is free: from then on another thread may be given the same address.
void free_counted(void* data) {
  ledger().remove(data);
  base_deleter(data);
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = base_->allocate(bytes);
    TORCH_CHECK(data.compare_exchange_deleter(base_deleter, &free_counted), "allocator: PyTorch's has two deleters");
    if (data.get()) ledger().add(data.get(), static_cast<int64_t>(bytes));
    return data;
  }

  // The raw interface is oneDNN's way to memory. The context is the data's address, so a look-up finds the size.
  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return base_->is_simple_data_ptr(data); }

  void copy_data(void* to, const void* from, std::size_t count) const override { base_->copy_data(to, from, count); }

 private:
  c10::Allocator* base_;
};

c10::Allocator* counting = nullptr;

PyObject* python_install(PyObject*, PyObject*) {
  if (!counting) {
    c10::Allocator* base = c10::GetCPUAllocator();
    base_deleter = base->raw_deleter();
    if (!base_deleter) {
      PyErr_SetString(PyExc_RuntimeError, "allocator: PyTorch's allocator has no raw deleter, so it cannot be wrapped");
      return nullptr;
    }
    counting = new CountingAllocator(base);
    // The strongest priority: another one may have been registered too.
    c10::SetCPUAllocator(counting, UINT8_MAX);
  }
  if (c10::GetCPUAllocator() != counting) {
    PyErr_SetString(PyExc_RuntimeError, "allocator: it was replaced by another one, so nothing would be counted");
    return nullptr;
  }
  Py_RETURN_NONE;
}

bool installed() {
  if (!counting)
    PyErr_SetString(PyExc_RuntimeError, "allocator: nothing is counted yet; call allocator_install() first");
  return counting;
}

template <void (Ledger::*action)()>
PyObject* python_action(PyObject*, PyObject*) {
  if (!installed()) return nullptr;
  (ledger().*action)();
  Py_RETURN_NONE;
}

template <int64_t Figures::* figure>
PyObject* python_figure(PyObject*, PyObject*) {
  return installed() ? PyLong_FromLongLong(ledger().figures().*figure) : nullptr;
}

}  // namespace

namespace autofn {

PyMethodDef* allocator_methods() {
  static PyMethodDef methods[] = {
      {"allocator_install", python_install, METH_NOARGS, "Counts from here on, for the rest of the process."},
      {"allocator_start", python_action<&Ledger::start>, METH_NOARGS, "Opens a new window, in which nothing is live."},
      {"allocator_live_bytes", python_figure<&Figures::live>, METH_NOARGS,
       "Allocated in the window and not yet freed."},
      {"allocator_peak_bytes", python_figure<&Figures::peak>, METH_NOARGS, "The most that was live since the reset."},
      {"allocator_reset_peak", python_action<&Ledger::reset_peak>, METH_NOARGS, "Lowers the peak to what is live."},
      {"allocator_allocated_bytes", python_figure<&Figures::allocated>, METH_NOARGS,
       "All that the window allocated, freed or not."},
      {nullptr, nullptr, 0, nullptr},
  };
  return methods;
}

}  // namespace autofn

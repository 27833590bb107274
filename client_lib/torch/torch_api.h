/* What the Python package calls of the library for PyTorch. C, exported, but no part of what
 * applications include: it may change with the package, which ships with the library.
 *
 * Attaching takes two calls, both right after `import torch`, under the GIL, on any one thread:
 *
 *   profd_torch_attach(version)          symbols, RecordFunction's offsets: no tensors needed
 *   profd_torch_probe_begin(&probe)      what tensors look like; then Python runs, once each,
 *     torch.cat([a, b], 1)               operators on the float tensor `a` and the long one `b`,
 *     torch.clamp(a, 0.25, 7)            so that lists, scalars, None and strings are proved on
 *     torch.sum(a, 1, True)              real calls; one that is left out leaves its kinds of
 *     torch.div(a, b, rounding_mode="floor")  inputs unproved, and so unread
 *   profd_torch_probe_end()
 *
 * After that one Python thread lives in profd_torch_wait(), which must be called without the
 * GIL (ctypes.CDLL), and answers what it is asked.
 */
#ifndef PROFD_CLIENT_LIB_TORCH_TORCH_API_H_
#define PROFD_CLIENT_LIB_TORCH_TORCH_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Two contiguous CPU tensors of shape (1237, 3, 5), made by torch.empty(), whose c10::TensorImpl
 * are at `float_tensor` (float32) and `long_tensor` (int64) (`tensor._cdata`), their data at
 * `*_data` (`tensor.data_ptr()`), and one of shape (3, 5, 1237, 1, 2, 1, 1) float32.
 * `storage_data` is that of `float_tensor`'s storage. All stay alive until probe_end(). */
struct profd_torch_probe {
  uint32_t size_bytes; /* sizeof(struct profd_torch_probe) */
  uint32_t reserved;
  const void* float_tensor;
  const void* long_tensor;
  const void* deep_tensor;
  const void* float_data;
  const void* long_data;
  const void* deep_data;
};

/* Attaches to the one libtorch in the process; `version` is torch.__version__. Idempotent.
 * Returns the wire::TorchFeature that work so far; 0: none, PROFD_LOG says why. */
uint32_t profd_torch_attach(const char* version);

/* See above. Between the two calls this thread's operators are looked at, not recorded. */
int profd_torch_probe_begin(const struct profd_torch_probe* probe);
uint32_t profd_torch_probe_end(void);

/* The interpreter ends: torch is destroyed soon, and not called any more. What is recorded of it
 * after this is not said. */
void profd_torch_leave(void);

/* wire::TorchFeature that work. */
uint32_t profd_torch_features(void);

/* What profd_torch_wait() asks for. */
enum {
  PROFD_TORCH_QUIT = 0,    /* The library is disabled: end the thread. */
  PROFD_TORCH_ARMED = 1,   /* A capture is armed: hook what costs while hooked. */
  PROFD_TORCH_COLLECT = 2, /* Its window is over: say who owns what, then profd_torch_done(). */
  PROFD_TORCH_IDLE = 3,    /* The capture is over: unhook. */
  PROFD_TORCH_COUNT = 4    /* Count the optimizers: profd_torch_optimizers(). At any time. */
};

/* Sleeps until there is something to do. Without the GIL, on one thread only. `wanted` gets the
 * wire::TorchFeature that the capture wants. */
int profd_torch_wait(uint32_t* wanted);

/* A block that a parameter, a gradient, an optimizer's state or a buffer has (see
 * wire::BlockEvent); or, of category 0, one that is there. Between COLLECT and
 * profd_torch_done(). */
void profd_torch_block(uint64_t address, int64_t bytes, uint16_t device_type, int16_t device_index,
                       uint16_t category, const char* name);

/* A wire::NoteEvent; `subject` and `text` may be NULL. While a capture records it is of this
 * moment; between COLLECT and profd_torch_done() it is of none. Else it does nothing.
 * Any thread. */
void profd_torch_note(uint16_t kind, const char* subject, const char* text, int64_t value);

/* The calling thread begins to compile (not 0), or is done (0): what runs there in between is
 * counted and left out, and the compilation is one range. For releases of torch that announce it
 * to torch.profiler alone; of others it does nothing. */
void profd_torch_compiling(int begins);

/* The step() of `optimizer` (a number; none that came later has a lower one, or one that another
 * had), whose class is `type` (an address, never dereferenced), begins (not 0) or ends (0). torch's
 * global hooks call this at each step, on the thread that runs the step. */
void profd_torch_optimizer_hook(uint64_t type, uint64_t optimizer, int begins);

/* A profiler of torch's is about to use CUPTI (not 0), or has left it (0). A capture that has CUPTI
 * leaves it first, and ends; while there is one, captures with a GPU part are refused. Waits a
 * second at most, so without the GIL. A first call with 0 tells that all such profilers are
 * reported: another one that torch has is of the CPU, and no obstacle. Any thread. */
void profd_torch_profiler(int begins);

/* There are `count` optimizers whose class is called `class_name` and that have done steps: once
 * for each class behind COUNT. */
void profd_torch_optimizers(const char* class_name, uint32_t count);

/* The module at `address` is `path` below the module at `root`, NULL for the root itself, and of
 * class `class_name`. Between COLLECT and profd_torch_done(). */
void profd_torch_module(uint64_t address, uint64_t root, const char* path, const char* class_name);

/* Appends to the list `found` each object of the list that `get_objects` returns (gc.get_objects)
 * whose class is one of `classes` itself. That list is dropped before Python's lock is given up: no
 * other thread can find that we hold an object, or leave us as its last holder. `get_objects` and
 * `found` are PyObject *; `classes` has the addresses of `count` classes, in order. Returns 0, or
 * -1: Python's functions are hidden, its lock is not ours, or its error is set, and `found` may
 * have some. Any thread of Python's. */
int profd_torch_instances(void* get_objects, void* const* classes, size_t count, void* found);

/* All that COLLECT asked for was said. */
void profd_torch_done(void);

#if defined(__cplusplus)
}
#endif

#endif /* PROFD_CLIENT_LIB_TORCH_TORCH_API_H_ */

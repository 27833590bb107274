"""Who owns which block of memory: one look at the program's modules and optimizers.

What a tensor is for is known to Python alone: a parameter is what a module holds as one, an
optimizer's state is what its `state` holds. They are found among the objects that the garbage
collector knows, once per capture, after its window; nothing is hooked before.

Of all other tensors only how large they are is told: what was allocated before the window, such
as a batch that is used again and again, has no other witness.

Gradients are different. The engine exchanges them without the GIL, and `p.grad = None` releases it while
p still has the old one: a thread that reads one at that moment crashes. So they are read where the
optimizer itself reads them: right after its next step(), on the thread that runs it.

Threads: any, with the GIL, while the program trains on. Nothing of the program's is called: no
    property, no __getattr__, no __torch_function__.
Known gaps: gradients of parameters without an optimizer, or whose optimizer does not call torch's hooks
    (none does with torch before 2.1). Objects hidden by gc.freeze(), ScriptModules, sparse layouts other
    than COO, and devices other than the CPU and CUDA. All other tensors with torch before 2.10 (see
    _objects); later, those of subclasses of torch.Tensor, and all but _MAX_OTHERS, of which those that
    survived the most garbage collections come first.
"""

import itertools
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from profd import _answering
from profd._objects import find_objects, may_hold_any_tensor
from profd._torch_optimizers import StepEnds

# wire::MemoryCategory in proto/wire/event.h.
UNKNOWN, PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER = 0, 1, 2, 3, 7
# wire::DeviceType.
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}

# CPU time in a step() of the program, for the gradients of its optimizer, looked at after so many.
_MOST_READ_S = 0.002
_READ_AT_ONCE = 32
# Names of what a state holds, and lists in it, go this deep.
_MAX_STATE_DEPTH = 3
# Some 40 ms of looking.
_MAX_OTHERS = 8192


class Block(NamedTuple):
    """A block of memory and who it is of."""

    address: int
    bytes: int
    device_type: int
    device_index: int
    category: int
    name: str  # "" if nothing owns it.


class Owners:
    """The modules and optimizers that are alive now, and what they hold."""

    def __init__(self, torch: Any, step_ends: Optional[StepEnds] = None) -> None:
        """Without `step_ends` no gradient is read."""
        self._torch = torch
        self._step_ends = step_ends
        # By id of the parameter, and how many there was no time for.
        self._gradients: List[Tuple[int, Block]] = []
        self._unread_gradients = 0
        # What gradients lack, if any; known once blocks() is through.
        self.lack_of_gradients: Optional[str] = None
        # This torch does not let anyone hold a tensor whose owner is not known.
        self.lacks_others = not may_hold_any_tensor(torch)
        tensors: List[Any] = []
        if self.lacks_others:
            self._modules, self._optimizers = find_objects(torch.nn.Module, torch.optim.Optimizer)
        else:
            self._modules, self._optimizers, tensors = find_objects(
                torch.nn.Module, torch.optim.Optimizer, torch.Tensor)
        with self._as_plain_tensors():
            self._others = list(self._blocks_of_any(tensors))
        # By id; the tensors are kept alive with their names, so that no id is used twice.
        self._parameters: Dict[int, Tuple[Any, str]] = {}
        self._buffers: Dict[int, Tuple[Any, str]] = {}
        self._name_what_modules_hold()

    def blocks(self) -> Iterator[Block]:
        """Each block once: of a parameter before of anything else that shares it, and last those
        of which nothing but their size is known."""
        seen: Set[Tuple[int, int, int]] = set()
        with self._as_plain_tensors():
            for block in itertools.chain(self._owned(), self._others):
                key = (block.device_type, block.device_index, block.address)
                if key not in seen:
                    seen.add(key)
                    yield block

    def _as_plain_tensors(self) -> Any:
        """While it is entered, subclasses of tensors that take calls over are not asked."""
        guard = getattr(self._torch._C, "DisableTorchFunctionSubclass", None)
        return (guard or self._torch._C.DisableTorchFunction)()

    def _blocks_of_any(self, tensors: List[Any]) -> Iterator[Block]:
        """Empties `tensors`: what the program lets go of meanwhile is to live no longer than it
        must, for it may be as large as all that the backward pass needs."""
        left = _MAX_OTHERS
        while tensors:
            _answering.check()
            tensor = tensors.pop()  # The collector's oldest generation came last.
            if left > 0 and type(tensor) is self._torch.Tensor:
                left -= 1
                yield from self._blocks_of(tensor, UNKNOWN, "")

    def _name_what_modules_hold(self) -> None:
        children = {id(child) for module in self._modules
                    for _, child in _items(module, "_modules")}
        roots = [module for module in self._modules if id(module) not in children]
        # A module among its own descendants has no root above it: those come last.
        visited: Set[int] = set()
        walks = []
        for module in roots + self._modules:
            tensors = list(_walk(module, visited))
            if tensors:
                walks.append((type(module).__name__, tensors))
        counts: Dict[str, int] = {}
        for root, tensors in walks:
            counts[root] = counts.get(root, 0) + 1
            prefix = ""
            if len(walks) > 1:  # A teacher and its student: whose weight?
                prefix = "%s%s." % (root, "#%d" % counts[root] if counts[root] > 1 else "")
            for name, tensor, is_parameter in tensors:
                table = self._parameters if is_parameter else self._buffers
                table.setdefault(id(tensor), (tensor, prefix + name))

    def _owned(self) -> Iterator[Block]:
        parameters = list(self._parameters.values())
        loose = list(self._parameters_of_optimizers())
        for tensor, name in parameters + loose:
            yield from self._blocks_of(tensor, PARAMETER, name)
        for tensor, name in self._buffers.values():
            yield from self._blocks_of(tensor, BUFFER, name)
        names = {id(tensor): name for tensor, name in parameters + loose}
        yield from self._gradients_of(names)
        for name, tensor in self._states(names):
            yield from self._blocks_of(tensor, OPTIMIZER_STATE, name)

    def _parameters_of_optimizers(self) -> Iterator[Tuple[Any, str]]:
        """Those that no module holds."""
        for optimizer in self._optimizers:
            for number, tensors in enumerate(_groups(optimizer)):
                for index, tensor in enumerate(tensors):
                    if self._is_tensor(tensor) and id(tensor) not in self._parameters:
                        yield tensor, "%s.param_groups[%d][%d]" % (
                            type(optimizer).__name__, number, index)

    def _gradients_of(self, names: Dict[int, str]) -> Iterator[Block]:
        if self._step_ends is None:
            self.lack_of_gradients = "torch before 2.1 has no hooks after an optimizer's step"
            return
        late = self._step_ends.await_each(self._optimizers, self._read_gradients)
        if late:
            self.lack_of_gradients = "%d of %d optimizers did no step after the window" % (
                late, len(self._optimizers))
        elif self._unread_gradients:
            self.lack_of_gradients = (
                "reading all would have held a step up; %d were not read" % self._unread_gradients)
        for owner, block in list(self._gradients):
            if owner in names:
                yield block._replace(name=names[owner] + ".grad")

    def _read_gradients(self, optimizer: Any) -> None:
        """On the thread that runs its step()."""
        until = time.thread_time() + _MOST_READ_S
        with self._as_plain_tensors():
            leaves = [tensor for tensors in _groups(optimizer) for tensor in tensors
                      if self._is_tensor(tensor) and tensor.is_leaf]
            for number, leaf in enumerate(leaves):
                if number % _READ_AT_ONCE == 0 and time.thread_time() > until:
                    self._unread_gradients += len(leaves) - number
                    return
                gradient = self._torch._C._TensorBase.grad.__get__(leaf)
                if gradient is not None:
                    self._gradients += [(id(leaf), block)
                                        for block in self._blocks_of(gradient, GRADIENT, "")]

    def _states(self, names: Dict[int, str]) -> Iterator[Tuple[str, Any]]:
        for optimizer in self._optimizers:
            state = object.__getattribute__(optimizer, "__dict__").get("state")
            if not isinstance(state, dict):
                continue
            for key, value in list(state.items()):
                owner = names.get(id(key), type(optimizer).__name__ + ".state")
                yield from self._tensors_in(value, owner, 0)

    def _tensors_in(self, value: Any, name: str, depth: int) -> Iterator[Tuple[str, Any]]:
        if self._is_tensor(value):
            yield name, value
        elif depth < _MAX_STATE_DEPTH and isinstance(value, dict):
            for key, item in list(value.items()):
                if isinstance(key, str):
                    yield from self._tensors_in(item, "%s.%s" % (name, key), depth + 1)
        elif depth < _MAX_STATE_DEPTH and isinstance(value, (list, tuple)):
            for index, item in enumerate(list(value)):
                yield from self._tensors_in(item, "%s[%d]" % (name, index), depth + 1)

    def _is_tensor(self, value: Any) -> bool:
        return issubclass(type(value), self._torch.Tensor)

    def _blocks_of(self, tensor: Any, category: int, name: str) -> Iterator[Block]:
        try:
            # What a DTensor has here, of it.
            local = getattr(tensor, "_local_tensor", None)
            if local is not None and type(tensor).__module__.startswith("torch."):
                tensor = local
            device_type = _DEVICE_TYPES.get(tensor.device.type)
            if device_type is None:
                return
            parts = [tensor]
            if tensor.layout == self._torch.sparse_coo:
                parts = [tensor._indices(), tensor._values()]
            for part in parts:
                storage = _storage(self._torch, part)
                address, size = _address(self._torch, part, storage), storage.nbytes()
                if address != 0 and size != 0:
                    yield Block(address, size, device_type, tensor.device.index or 0, category,
                                name)
        except (RuntimeError, NotImplementedError, ValueError):
            return  # It has no storage: not made yet, of no real memory, or another's layout.


def _storage(torch: Any, tensor: Any) -> Any:
    base = torch._C._TensorBase
    # 2.0 renamed it.
    return (base.untyped_storage if hasattr(base, "untyped_storage") else base._storage)(tensor)


def _address(torch: Any, tensor: Any, storage: Any) -> int:
    # Asking a tensor that is copied when it is written for its data makes the copy.
    is_cow = getattr(torch._C, "_is_cow_tensor", None)
    if is_cow is not None and is_cow(tensor):
        return torch._C._data_address(tensor)
    return storage.data_ptr()


def _items(module: Any, table: str) -> List[Tuple[str, Any]]:
    """What is in `module._parameters`, or another such table."""
    held = object.__getattribute__(module, "__dict__").get(table)
    # list() of a dict's items is one step as far as the GIL is concerned.
    return [item for item in list(held.items()) if item[1] is not None] \
        if isinstance(held, dict) else []


def _groups(optimizer: Any) -> List[List[Any]]:
    """What is in its param_groups."""
    groups = object.__getattribute__(optimizer, "__dict__").get("param_groups")
    return [_list(group.get("params")) if isinstance(group, dict) else []
            for group in _list(groups)]


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _walk(root: Any, visited: Set[int]) -> Iterator[Tuple[str, Any, bool]]:
    """(name, tensor, is a parameter) of all that `root` and those below it hold."""
    left = [("", root)]
    while left:
        prefix, module = left.pop()
        if id(module) in visited:
            continue
        visited.add(id(module))
        for name, tensor in _items(module, "_parameters"):
            yield prefix + name, tensor, True
        for name, tensor in _items(module, "_buffers"):
            yield prefix + name, tensor, False
        for name, child in reversed(_items(module, "_modules")):
            left.append(("%s%s." % (prefix, name), child))

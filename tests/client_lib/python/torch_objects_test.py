"""What Python tells of a torch job: who owns which memory, what was compiled, which step it is.

Runs with the torch of this Python; without one it skips. The library is off, but for the look at
the program's objects.
"""

import ctypes
import gc
import importlib.util
import os
import pathlib
import sys
import types
import unittest
import unittest.mock
import weakref

if importlib.util.find_spec("torch") is None:
    print("SKIP: this Python has no torch")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client_lib" / "python"))
os.environ["PROFD_DISABLE"] = "1"

import torch  # noqa: E402

from profd import (  # noqa: E402
    _objects, _torch, _torch_blocks, _torch_compile, _torch_labels, _torch_modules, _torch_optimizers)
from profd._objects import may_hold_any_tensor  # noqa: E402
from profd._torch_blocks import (  # noqa: E402
    BUFFER, OPTIMIZER_STATE, PARAMETER, UNKNOWN)

BUILD_DIR = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
LIBRARY = BUILD_DIR / "lib" / "libprofd_client.so"
_objects._library = types.SimpleNamespace(lib=ctypes.PyDLL(str(LIBRARY)))
needs_objects = unittest.skipIf("t" in sys.abiflags, "a free-threaded Python")
needs_others = unittest.skipUnless(may_hold_any_tensor(torch), "torch before 2.10")


def storage_of(tensor):
    return _torch_blocks._storage(torch, tensor)


@needs_objects
class ModulesTest(unittest.TestCase):

    def setUp(self):
        gc.collect()  # The models of the test before.

    def below(self, root):
        return {module.path: module for module in _torch_modules.modules(torch)
                if module.root == id(root)}

    def test_paths_are_those_of_named_modules(self):
        nn = torch.nn
        shared = nn.Linear(2, 2)
        model = nn.Sequential(nn.ModuleDict({"a": nn.Sequential(shared, nn.ReLU())}), shared)
        other = nn.Sequential(nn.GELU())
        for root in (model, other):
            found = self.below(root)
            self.assertEqual({path: module.address for path, module in found.items()},
                             {path: id(module) for path, module in root.named_modules()})
            self.assertEqual({path: module.class_name for path, module in found.items()},
                             {path: type(module).__name__
                              for path, module in root.named_modules()})

    def test_modules_in_a_circle_are_told_once(self):
        first, second = torch.nn.Module(), torch.nn.Module()
        first.next, second.next = second, first
        told = [module.address for module in _torch_modules.modules(torch)
                if module.address in (id(first), id(second))]
        self.assertEqual(sorted(told), sorted((id(first), id(second))))
        del first.next


@needs_objects
class BlocksTest(unittest.TestCase):

    def setUp(self):
        gc.collect()  # The models of the test before.

    def all_blocks(self):
        return list(_torch_blocks.Owners(torch).blocks())

    def blocks(self):
        """Those that are somebody's."""
        return [block for block in self.all_blocks() if block.category != UNKNOWN]

    def of(self, tensor):
        """What is told of the memory that `tensor` has."""
        address = storage_of(tensor).data_ptr()
        return [block for block in self.all_blocks() if block.address == address]

    def by_name(self):
        return {block.name: block for block in self.blocks()}

    def expect(self, block, tensor, category):
        storage = storage_of(tensor)
        self.assertEqual((block.address, block.bytes, block.category, block.device_type,
                          block.device_index),
                         (storage.data_ptr(), storage.nbytes(), category, 0, 0))

    def test_what_a_module_holds_has_the_names_of_its_state(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        blocks = self.by_name()
        state = model.state_dict()
        self.assertEqual(set(blocks), set(state))
        for name, tensor in state.items():
            is_buffer = name in dict(model.named_buffers())
            self.expect(blocks[name], tensor, BUFFER if is_buffer else PARAMETER)

    @unittest.skipUnless(hasattr(torch, "_lazy_clone") and hasattr(torch._C, "_is_cow_tensor"),
                         "this torch has no tensors that are copied when they are written")
    def test_a_tensor_that_is_copied_when_it_is_written_is_not_copied_by_being_looked_at(self):
        model = torch.nn.Linear(4, 3)
        model.register_buffer("lazy", torch._lazy_clone(torch.ones(5)))
        block = self.by_name()["lazy"]
        self.assertTrue(torch._C._is_cow_tensor(model.lazy))
        self.assertEqual(block.bytes, 5 * 4)

    def test_optimizer_state_is_named_after_its_parameter(self):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        blocks = self.by_name()
        self.assertNotIn("weight.grad", blocks)  # Nobody said where the optimizer's step ends.
        state = optimizer.state[model.weight]
        for key in ("exp_avg", "exp_avg_sq"):
            self.expect(blocks["weight." + key], state[key], OPTIMIZER_STATE)

    def test_lists_and_tables_in_a_state_are_looked_into(self):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.state[model.weight] = {"old": [torch.ones(5), {"deep": torch.ones(6)}], 7: 1}
        blocks = self.by_name()
        self.expect(blocks["weight.old[0]"], optimizer.state[model.weight]["old"][0],
                    OPTIMIZER_STATE)
        self.assertEqual(blocks["weight.old[1].deep"].bytes, 24)

    def test_parameters_without_a_module_are_named_after_their_optimizer(self):
        loose = torch.ones(5, requires_grad=True)
        optimizer = torch.optim.SGD([loose], lr=0.1)
        self.assertEqual([block.name for block in self.blocks()], ["SGD.param_groups[0][0]"])
        del optimizer

    def test_several_models_are_told_apart(self):
        models = [torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(2, 1, bias=False),
                  torch.nn.Bilinear(2, 2, 1, bias=False)]
        self.assertEqual({block.name for block in self.blocks()},
                         {"Linear.weight", "Linear#2.weight", "Bilinear.weight"})
        del models

    def test_a_module_without_tensors_does_not_count_as_a_model(self):
        model, loss = torch.nn.Linear(2, 1, bias=False), torch.nn.CrossEntropyLoss()
        self.assertEqual([block.name for block in self.blocks()], ["weight"])
        del model, loss

    def test_memory_that_is_shared_is_told_once(self):
        encoder = torch.nn.Linear(4, 4, bias=False)
        decoder = torch.nn.Linear(4, 4, bias=False)
        decoder.weight = encoder.weight
        model = torch.nn.ModuleDict({"encoder": encoder, "decoder": decoder})
        view = torch.nn.Parameter(encoder.weight.data[1:])
        model.register_parameter("view", view)
        blocks = self.blocks()
        self.assertEqual(len(blocks), 1)
        self.assertEqual(blocks[0].address, storage_of(encoder.weight).data_ptr())

    def test_modules_in_a_circle_are_told(self):
        model = torch.nn.Linear(2, 1, bias=False)
        inner = torch.nn.Module()
        model.child = inner
        inner.parent = model
        self.assertEqual([block.category for block in self.blocks()], [PARAMETER])

    def test_what_has_no_memory_is_left_out(self):
        model = torch.nn.Module()
        model.empty = torch.nn.Parameter(torch.empty(0))
        model.elsewhere = torch.nn.Parameter(torch.empty(3, device="meta"))
        model.later = torch.nn.parameter.UninitializedParameter()
        model.register_parameter("none", None)
        self.assertEqual(self.blocks(), [])

    @needs_others
    def test_what_is_nobodys_is_told_with_its_size_alone(self):
        data = torch.ones(5)
        view = data[2:]
        block, = self.of(view)
        self.expect(block, data, UNKNOWN)
        self.assertEqual(block.name, "")

    def test_what_somebody_owns_is_told_as_theirs_alone(self):
        model = torch.nn.Linear(4, 3)
        view = model.weight.data[1:]
        self.assertEqual([block.category for block in self.of(view)], [PARAMETER])

    @needs_others
    def test_of_what_is_nobodys_no_more_is_told_than_there_is_room_for(self):
        model = torch.nn.Linear(4, 3)
        data = [torch.ones(1) for _ in range(10)]
        with unittest.mock.patch.object(_torch_blocks, "_MAX_OTHERS", 4):
            blocks = self.all_blocks()
        self.assertLessEqual(len([b for b in blocks if b.category == UNKNOWN]), 4)
        self.assertEqual({b.name for b in blocks} - {""}, {"weight", "bias"})
        del model, data

    @needs_others
    def test_the_oldest_are_told_first(self):
        data = torch.ones(3)
        gc.collect()  # It is of the oldest generation now.
        young = [torch.ones(1) for _ in range(10)]
        room = 1 + sum(type(thing) is torch.Tensor
                       for thing in gc.get_objects(generation=2) if thing is not data)
        with unittest.mock.patch.object(_torch_blocks, "_MAX_OTHERS", room):
            self.assertEqual(len(self.of(data)), 1)
        del young

    def test_what_is_looked_at_is_let_go(self):
        owners = _torch_blocks.Owners(torch)
        data = torch.ones(3)
        gone = weakref.ref(data)
        again = _torch_blocks.Owners(torch)
        del data
        self.assertIsNone(gone())
        del owners, again

    def test_subclasses_that_are_nobodys_are_left_out(self):
        class Wrapper(torch.Tensor):
            pass

        self.assertEqual(self.of(Wrapper(3)), [])

    def test_subclasses_of_tensors_are_not_asked(self):
        class Loud(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, kinds, args=(), kwargs=None):
                raise AssertionError("asked for %s" % function)

        model = torch.nn.Module()
        model.register_buffer("loud", torch.ones(3).as_subclass(Loud))
        self.assertEqual([block.bytes for block in self.blocks()], [12])

    def test_modules_with_code_of_their_own_are_not_run(self):
        class Proud(torch.nn.Module):
            def __getattr__(self, name):
                raise AssertionError("asked for %s" % name)

            def named_parameters(self, *args, **kwargs):
                raise AssertionError("asked for its parameters")

        class Unfinished(torch.nn.Module):
            def __init__(self):
                pass

        models = [Proud(), Unfinished()]
        self.assertEqual(self.blocks(), [])
        del models


# torch 2.15; paths are shortened.
BREAK = '''Graph break in user code at /home/me/gb.py:16
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`
  Hint: Avoid calling builtin `print`.
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print [] False

 For more details about this graph break, please visit: https://example.org/gb0059.html

User code traceback:
  File "/home/me/gb.py", line 19, in <module>
    m(torch.ones(4))
  File "/home/me/gb.py", line 16, in f
    print("hi")

Traceback (most recent call last):
  File "/torch/_dynamo/symbolic_convert.py", line 1123, in wrapper
    return inner_fn(self, inst)
'''  # noqa: E501
# 2.4 and thereabouts.
BREAK_24 = '''Graph break in user code at /home/me/gb.py:16
Reason: Unsupported: builtin: print [] False
User code traceback:
  File "/home/me/gb.py", line 16, in f
    print("hi")

Traceback (most recent call last):
  File "/torch/_dynamo/symbolic_convert.py", line 5, in wrapper
torch._dynamo.exc.Unsupported: builtin: print [] False
'''
# 2.2 and 2.3.
BREAK_22 = '''Graph break: from user code at:
  File "/home/me/gb.py", line 16, in f
    print("hi")

Traceback (most recent call last):
  File "/torch/_dynamo/symbolic_convert.py", line 5, in wrapper
    return inner_fn(self, inst)
torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)
'''


class ListenerTest(unittest.TestCase):

    def setUp(self):
        self.notes = []
        self.told = []
        self.listener = _torch_compile.Listener(lambda *note: self.notes.append(note),
                                                self.told.append)

    def say(self, metadata, payload=None):
        self.listener.handle(types.SimpleNamespace(metadata=metadata, payload=payload))

    def compiled(self, **metrics):
        return {"frame_id": 3, "frame_compile_id": 1, "compilation_metrics": dict(
            {"co_filename": "/home/me/train.py", "co_firstlineno": 19, "co_name": "forward",
             "entire_frame_compile_time_s": 0.25}, **metrics)}

    def test_a_graph_break_has_the_users_line_and_the_reason(self):
        wanted = {
            BREAK: "Failed to trace builtin operator Explanation: Dynamo does not know how to "
                   "trace builtin operator `print`",
            BREAK_24: "Unsupported: builtin: print [] False",
            BREAK_22: "call_function BuiltinVariable(print)",
        }
        for text, reason in wanted.items():
            self.say({"artifact": {"name": "dynamo_graph_break_reason"}}, text)
            self.assertEqual(self.notes.pop(), (1, "gb.py:16 in f", reason, 0))

    def test_a_break_in_words_of_its_own_is_told_as_it_is(self):
        self.say({"artifact": {"name": "dynamo_graph_break_reason"}}, "new words\nmore")
        self.assertEqual(self.notes, [(1, "unknown", "new words", 0)])

    def test_a_long_reason_is_cut(self):
        self.say({"artifact": {"name": "dynamo_graph_break_reason"}}, "x" * 10000)
        self.assertEqual(len(self.notes[0][2]), 500)

    def test_a_recompilation_is_told_when_its_time_is_known(self):
        reason = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 8"
        for payload in (reason, '["%s", "0/1: older"]' % reason):
            self.say({"artifact": {"name": "recompile_reasons"}, "frame_id": 3,
                      "frame_compile_id": 1}, payload)
            self.assertEqual(self.notes, [])
            self.say(self.compiled())
            self.assertEqual(self.notes.pop(),
                             (2, "train.py:19 in forward", reason, 250_000_000))
        self.say(self.compiled())
        self.assertEqual(self.notes, [])  # The first of its kind: no recompilation.

    def test_the_begin_and_the_end_of_a_compilation_are_told(self):
        self.say({"dynamo_start": {"stack": []}, "frame_id": 3, "frame_compile_id": 1})
        self.assertEqual(self.told, [1])
        self.say(self.compiled(is_forward=False))
        self.assertEqual(self.told, [1])
        self.say(self.compiled(is_forward=True))
        self.say(self.compiled())
        self.assertEqual(self.told, [1, 0, 0])

    def test_the_compilation_of_a_backward_graph_is_told(self):
        def event(name, phase):
            self.say({"chromium_event": {}}, '{"name": "%s", "ph": "%s", "ts": 1.5}' % (name, phase))
        for phase in "BE":
            event("inductor_compile", phase)
        self.assertEqual(self.told, [])
        event("entire_backward_compile", "B")
        event("inductor_compile", "B")
        self.say(self.compiled(is_forward=False))
        event("entire_backward_compile", "i")
        self.assertEqual(self.told, [1])
        event("entire_backward_compile", "E")
        self.assertEqual(self.told, [1, 0])

    def test_recompilations_that_are_never_done_do_not_pile_up(self):
        for compilation in range(10000):
            self.say({"artifact": {"name": "recompile_reasons"}, "frame_id": 1,
                      "frame_compile_id": compilation}, "x")
        self.assertLessEqual(len(self.listener._reasons), 256)

    def test_what_it_does_not_understand_raises_nothing(self):
        for metadata, payload in (({}, None), ({"artifact": None}, "x"), (None, None),
                                  ({"artifact": {"name": "dynamo_graph_break_reason"}}, None),
                                  ({"compilation_metrics": 7}, None),
                                  ({"chromium_event": {}}, None),
                                  ({"chromium_event": {}}, "entire_backward_compile"),
                                  ({"chromium_event": {}}, '["entire_backward_compile"]'),
                                  ({"artifact": {"name": "recompile_reasons"}}, "[")):
            self.say(metadata, payload)
        self.assertEqual(self.notes, [])

    def test_regions_are_told_with_their_code(self):
        kept = sys.modules.get("torch._dynamo.utils")
        entry = types.SimpleNamespace(
            compile_id="1/0", co_name="torch_dynamo_resume_in_f_at_16", co_firstlineno=16,
            co_filename="/home/me/gb.py", guard_count=8)
        backward = types.SimpleNamespace(compile_id="1/0", co_name=None)
        sys.modules["torch._dynamo.utils"] = types.SimpleNamespace(
            get_compilation_metrics=lambda: [entry, backward])
        try:
            _torch_compile.tell_regions(lambda *note: self.notes.append(note))
        finally:
            sys.modules.pop("torch._dynamo.utils")
            if kept is not None:
                sys.modules["torch._dynamo.utils"] = kept
        self.assertEqual(self.notes, [(3, "1/0", "gb.py:16 in torch_dynamo_resume_in_f_at_16", 8)])

    def test_a_wrapper_of_torch_is_not_named_as_the_code(self):
        wrapper = "/usr/lib/python3/dist-packages/torch/_dynamo/external_utils.py"

        def place(**metrics):
            return _torch_compile._place(dict({"co_name": "inner", "co_firstlineno": 67,
                                               "co_filename": wrapper}, **metrics))

        what = "torch.compile's wrapper of a module or function"
        frames = ["Line: 8, Name: <module>, Filename: /home/me/train.py",
                  "Line: 7, Name: main, Filename: /home/me/train.py",
                  "Line: 67, Name: inner, Filename: " + wrapper]
        self.assertEqual(place(stack_trace=frames), what + ", called at train.py:7 in main")
        self.assertEqual(place(stack_trace=frames[2:]), what)
        for unknown in (None, [], ["train.py:7"], [None], "Line: 8", 7):
            self.assertEqual(place(stack_trace=unknown), what, unknown)
        self.assertEqual(place(co_name="torch_dynamo_resume_in_inner_at_68"),
                         "torch_dynamo_resume_in_inner_at_68 of " + what)
        self.assertEqual(place(co_filename="/home/me/external_utils.py"),
                         "external_utils.py:67 in inner")


@unittest.skipUnless(hasattr(torch, "compile"), "this torch is older than torch.compile")
class RealCompileTest(unittest.TestCase):

    def test_what_torch_says_is_understood(self):
        def broken(x):
            y = x.sin()
            print(end="")
            return y.cos()

        notes = []
        told = []
        listener = _torch_compile.Listener(lambda *note: notes.append(note), told.append)
        listener.start()
        try:
            compiled = torch.compile(broken, backend="eager")
            compiled(torch.ones(4))
            compiled(torch.ones(8))
        finally:
            listener.stop()
        self.assertEqual(told.count(1) > 0, told.count(0) > 0, told)
        line = broken.__code__.co_firstlineno
        here = os.path.basename(__file__)
        breaks = [note for note in notes if note[0] == 1]
        self.assertEqual({note[1] for note in breaks}, {"%s:%d in broken" % (here, line + 2)})
        self.assertTrue(all("print" in note[2] for note in breaks), breaks)
        again = [note for note in notes if note[0] == 2]
        self.assertIn("%s:%d in broken" % (here, line), {note[1] for note in again})
        self.assertTrue(all("size mismatch" in note[2] and note[3] > 0 for note in again), again)
        regions = []
        _torch_compile.tell_regions(lambda *note: regions.append(note))
        self.assertIn("%s:%d in broken" % (here, line), {note[2] for note in regions})

    def test_a_compiled_sequential_is_not_code_of_torch(self):
        compiled = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)), backend="eager")
        compiled(torch.ones(2, 4))
        regions = []
        _torch_compile.tell_regions(lambda *note: regions.append(note))
        self.assertFalse([note for note in regions if "external_utils" in note[2]], regions)
        if any(vars(metrics).get("stack_trace") for metrics in
               torch._dynamo.utils.get_compilation_metrics()):
            caller = ", called at %s:" % os.path.basename(__file__)
            self.assertTrue(any(caller in note[2] for note in regions), regions)


@needs_objects
class LabelsTest(unittest.TestCase):

    def tell(self, module_name, step_count=lambda: 42, **classes):
        module = types.ModuleType(module_name)
        vars(module).update(classes)
        sys.modules[module_name] = module
        notes = []
        try:
            _torch_labels.tell_labels(lambda *note: notes.append(note), 5, step_count)
        finally:
            del sys.modules[module_name]
        return notes

    def test_a_trainers_own_numbers_are_told_with_the_step_they_hold_for(self):
        class TrainerState:
            epoch = 1.5
            global_step = 1207

        states = [TrainerState(), TrainerState()]  # A callback may keep a copy.
        for state in states:
            state.gc_tracks_what_holds = []
        self.assertEqual(self.tell("transformers.trainer_callback", TrainerState=TrainerState),
                         [(5, "epoch", "step 41", 1),
                          (5, "global_step", "step 41", 1207)])

    def test_several_optimizers_are_told_because_lightning_counts_the_steps_of_each(self):
        class Trainer:
            current_epoch = 3
            global_step = 84

        trainer = Trainer()
        trainer.gc_tracks_what_holds = []
        trainer.optimizers = [object()]
        alone = self.tell("lightning.pytorch.trainer.trainer", Trainer=Trainer)
        self.assertEqual(alone, [(5, "epoch", "step 41", 3), (5, "global_step", "step 41", 84)])
        trainer.optimizers = [object(), object()]
        both = self.tell("lightning.pytorch.trainer.trainer", Trainer=Trainer)
        self.assertEqual(both, alone + [(5, "optimizers", "step 41", 2)])

    def test_numbers_that_are_not_known_are_left_out(self):
        class Trainer:
            current_epoch = None

            @property
            def global_step(self):
                raise RuntimeError("not attached to a loop")

        trainer = Trainer()
        trainer.gc_tracks_what_holds = []
        self.assertEqual(self.tell("lightning.pytorch.trainer.trainer", Trainer=Trainer), [])

    def test_before_the_first_step_they_hold_for_none(self):
        class TrainerState:
            epoch = 0.0

        state = TrainerState()
        state.gc_tracks_what_holds = []
        self.assertEqual(self.tell("transformers.trainer_callback", lambda: 0,
                                   TrainerState=TrainerState), [(5, "epoch", None, 0)])

    def test_a_step_that_begins_while_they_are_read_makes_them_read_again(self):
        counts = [42, 43, 43, 44]  # Until it stays.

        class TrainerState:
            global_step = property(lambda state: counts[0])

        state = TrainerState()
        state.gc_tracks_what_holds = []

        def step_count():
            return counts.pop(0) if len(counts) > 1 else counts[0]
        self.assertEqual(self.tell("transformers.trainer_callback", step_count,
                                   TrainerState=TrainerState), [(5, "global_step", "step 43", 44)])

    def test_a_framework_that_counts_late_is_read_when_it_has_counted(self):
        class TrainerState:
            reads = 0

            @property
            def global_step(self):
                self.reads += 1
                return 41 if self.reads == 1 else 42

        state = TrainerState()
        state.gc_tracks_what_holds = []
        self.assertEqual(self.tell("transformers.trainer_callback", TrainerState=TrainerState),
                         [(5, "global_step", "step 41", 42)])

    def test_accelerates_epoch_is_that_of_its_loaders(self):
        class Accelerator:
            step = 3
            _dataloaders = [types.SimpleNamespace(iteration=2), types.SimpleNamespace(iteration=0)]

        accelerator = Accelerator()
        accelerator.gc_tracks_what_holds = []
        self.assertEqual(self.tell("accelerate.accelerator", Accelerator=Accelerator),
                         [(5, "epoch", "step 41", 2), (5, "micro_step", "step 41", 3)])

    def test_without_a_framework_nothing_is_looked_for(self):
        self.assertEqual(list(_torch_labels.readings(lambda: 42)), [])


class OptimizersTest(unittest.TestCase):
    """How many train, by class."""

    class Odd(torch.optim.SGD):
        """A class of nobody else's, so that other tests' optimizers do not count."""

        is_watched = False

        def __getattribute__(self, name):
            if type(self).is_watched:
                raise RuntimeError("the program's own code must not run")
            return super().__getattribute__(name)

    class Even(torch.optim.Adam):
        pass

    def setUp(self):
        gc.collect()

    @staticmethod
    def trained(kind, **options):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = kind([weight], lr=0.1, **options)
        weight.sum().backward()
        optimizer.step()
        return optimizer

    def test_those_that_train_count_by_the_name_of_their_class(self):
        optimizers = [self.trained(self.Even), self.trained(self.Even),
                      self.trained(self.Odd, momentum=0.9)]
        with unittest.mock.patch.object(self.Odd, "is_watched", True):
            counts = _torch_optimizers.counts(torch)
        self.assertEqual((counts["Even"], counts["Odd"]), (2, 1))
        del optimizers

    def test_one_that_did_no_step_yet_does_not_count_beside_one_that_did(self):
        idle = self.Even([torch.nn.Parameter(torch.ones(3))], lr=0.1)
        self.assertEqual(_torch_optimizers.counts(torch)["Even"], 1)
        trained = self.trained(self.Even)
        self.assertEqual(_torch_optimizers.counts(torch)["Even"], 1)
        del idle, trained

    def test_those_that_never_have_a_state_all_count(self):
        optimizers = [self.trained(self.Odd), self.trained(self.Odd)]
        self.assertEqual(_torch_optimizers.counts(torch)["Odd"], 2)
        del optimizers

    def test_no_two_have_one_number_ever(self):
        numbers = _torch_optimizers.Numbers()
        lasting = self.trained(self.Even)
        seen = {numbers.of(lasting)}
        for _ in range(50):  # Python gives them few addresses.
            passing = self.trained(self.Even)
            number = numbers.of(passing)
            self.assertNotIn(number, seen)
            self.assertEqual(numbers.of(passing), number)
            seen.add(number)
        self.assertIn(numbers.of(lasting), seen)

    def test_numbers_of_those_that_are_gone_are_forgotten(self):
        numbers = _torch_optimizers.Numbers(most=4)
        lasting = [self.trained(self.Even) for _ in range(10)]
        first = [numbers.of(optimizer) for optimizer in lasting]
        self.assertEqual(first, sorted(set(first)))
        for _ in range(50):
            kept = [self.trained(self.Even) for _ in range(3)]
            for optimizer in kept:
                numbers.of(optimizer)
        self.assertLessEqual(len(numbers._known), 2 * (10 + 3 + 1))
        self.assertEqual([numbers.of(optimizer) for optimizer in lasting], first)

    def test_a_large_program_is_not_looked_through(self):
        optimizer = self.trained(self.Even)
        with unittest.mock.patch.object(sys, "getallocatedblocks", lambda: 10 ** 8):
            self.assertEqual(_torch_optimizers.counts(torch), {})
        del optimizer


class LauncherTest(unittest.TestCase):

    def is_launcher(self, *words):
        kept, _torch._command = _torch._command, lambda: list(words)
        try:
            return _torch._is_launcher()
        finally:
            _torch._command = kept

    def test_programs_that_only_start_others_are_known(self):
        for words in (("python", "/usr/bin/torchrun", "--nproc-per-node", "8", "train.py"),
                      ("python3", "-m", "torch.distributed.run", "train.py"),
                      ("python3", "-u", "-W", "ignore", "-m", "torch.distributed.launch", "x"),
                      ("python", "/venv/bin/accelerate", "launch", "train.py"),
                      ("python", "/venv/bin/deepspeed", "train.py")):
            self.assertTrue(self.is_launcher(*words), words)

    def test_the_programs_they_start_are_not(self):
        for words in (("python", "train.py", "torchrun"), ("python", "-c", "torchrun"),
                      ("python", "-m", "train", "torchrun"), ("python",), ("python", "-"), (),
                      ("python", "-u", "-X", "dev", "train.py", "-m", "torch.distributed.run")):
            self.assertFalse(self.is_launcher(*words), words)


class RefusalTest(unittest.TestCase):

    def test_what_is_no_torch_is_refused(self):
        self.assertIn("no torch._C", _torch._reason_against(types.ModuleType("torch")))
        self.assertEqual(_torch.attach(types.ModuleType("torch")), 0)

    def test_the_environment_keeps_it_out_of_programs_that_call_init_too(self):
        os.environ["PROFD_TORCH"] = "0"
        try:
            self.assertEqual(_torch._reason_against(torch), "PROFD_TORCH=0")
        finally:
            del os.environ["PROFD_TORCH"]

    def test_without_the_library_nothing_happens(self):
        self.assertIn("is off", _torch._reason_against(torch))
        self.assertEqual(_torch.attach(torch), 0)


if __name__ == "__main__":
    unittest.main()

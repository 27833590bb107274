"""What a framework on top of torch calls the step: PyTorch Lightning, HF's Trainer, Accelerate.

Labels only: what a step is, torch's own optimizer says. They are read once, after the window, from
the objects that the program has; the text says after which step of ours, so that the number of
any other step of the window is known too.

The program trains on meanwhile. So numbers count only where no step of ours began while they were
read; and a framework counts its step somewhat later than torch's optimizer ended it, so that of a
few moments the one counts at which it was ahead the furthest.
"""

import sys
import time
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

from profd import _answering
from profd._objects import MOST_BLOCKS, find_objects

# Trainers beyond this many are left out.
_MAX_TRAINERS = 4
# Moments at which the numbers of one are read, and between them.
_MOMENTS = 4
_BETWEEN_S = 0.002
# Readings of one moment, until no step begins meanwhile.
_TRIES = 8


class _Framework(NamedTuple):
    module: str
    class_name: str
    labels: Tuple[Tuple[str, Callable[[Any], Any]], ...]  # As we say it, and how to get it.
    is_below_others: bool = False  # They use it: it counts where there is none of them.


class Reading(NamedTuple):
    """Numbers of one trainer, when `step_count` steps of ours had begun."""

    step_count: int
    labels: Dict[str, int]


def _accelerate_epoch(accelerator: Any) -> int:
    return max(loader.iteration for loader in accelerator._dataloaders)


def _several_optimizers(trainer: Any) -> int:
    """Lightning counts the steps of each; reports must know that."""
    count = len(trainer.optimizers)
    if count < 2:
        raise LookupError
    return count


_LIGHTNING = (("epoch", lambda trainer: trainer.current_epoch),
              ("global_step", lambda trainer: trainer.global_step),
              ("optimizers", _several_optimizers))
_FRAMEWORKS = (
    _Framework("lightning.pytorch.trainer.trainer", "Trainer", _LIGHTNING),
    _Framework("pytorch_lightning.trainer.trainer", "Trainer", _LIGHTNING),
    _Framework("transformers.trainer_callback", "TrainerState",
               (("epoch", lambda state: state.epoch),
                ("global_step", lambda state: state.global_step))),
    # It counts batches of an epoch, not steps; epochs count its loaders.
    _Framework("accelerate.accelerator", "Accelerator",
               (("epoch", _accelerate_epoch),
                ("micro_step", lambda accelerator: accelerator.step)), is_below_others=True),
)


def readings(step_count: Callable[[], int]) -> Iterator[Reading]:
    """Of each trainer that is there. `step_count`: how many steps have begun, now."""
    present = []
    for framework in _FRAMEWORKS:
        kind = getattr(sys.modules.get(framework.module), framework.class_name, None)
        if isinstance(kind, type):
            present.append((framework, kind))
    if not present:
        return
    # Every capture asks for labels, so they may cost less than what a user asked for.
    found = find_objects(*(kind for _, kind in present), most_blocks=MOST_BLOCKS // 2)
    is_told = False
    for (framework, _), trainers in zip(present, found):
        if is_told and framework.is_below_others:
            continue
        for trainer in trainers[:_MAX_TRAINERS]:
            reading = _best_reading(framework, trainer, step_count)
            if reading is not None:
                is_told = True
                yield reading


def _best_reading(framework: _Framework, trainer: Any, step_count: Callable[[], int]
                  ) -> Optional[Reading]:
    best = None
    for moment in range(_MOMENTS):
        _answering.check()
        if moment > 0:
            time.sleep(_BETWEEN_S)
        reading = _reading(framework, trainer, step_count)
        if reading is None or not reading.labels:
            continue
        if "global_step" not in reading.labels:
            return reading
        if best is None or _lead(reading) > _lead(best):
            best = reading
    return best


def _lead(reading: Reading) -> int:
    return reading.labels["global_step"] - reading.step_count


def _reading(framework: _Framework, trainer: Any, step_count: Callable[[], int]
             ) -> Optional[Reading]:
    """None: each time a step began meanwhile."""
    for _ in range(_TRIES):
        count = step_count()
        labels = {}
        for subject, get in framework.labels:
            value = _number(get, trainer)
            if value is not None:
                labels[subject] = value
        if step_count() == count:
            return Reading(count, labels)
    return None


def _number(get: Callable[[Any], Any], trainer: Any) -> Optional[int]:
    try:
        return int(get(trainer))
    except Exception:  # Not yet known, or of a version that has it elsewhere.
        return None


def tell_labels(note: Callable, kind: int, step_count: Callable[[], int]) -> None:
    """Notes of all labels; each once."""
    labels = {(subject, reading.step_count - 1, value) for reading in readings(step_count)
              for subject, value in reading.labels.items()}
    for subject, step, value in sorted(labels):
        note(kind, subject, "step %d" % step if step >= 0 else None, value)

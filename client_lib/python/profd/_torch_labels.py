"""What a framework on top of torch calls the step: PyTorch Lightning, HF's Trainer, Accelerate.

Labels only: what a step is, torch's own optimizer says. They are read once, behind the window, from
the objects that the program has; the text says behind which step of ours, so that the number of
any other step of the window is known too.
"""

import sys
from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

from profd._objects import find_objects

# Trainers beyond this many are left out.
_MAX_TRAINERS = 4


class _Framework(NamedTuple):
    module: str
    class_name: str
    labels: Tuple[Tuple[str, str], ...]  # As we say it, and the attribute.


_FRAMEWORKS = (
    _Framework("lightning.pytorch.trainer.trainer", "Trainer",
               (("epoch", "current_epoch"), ("global_step", "global_step"))),
    _Framework("pytorch_lightning.trainer.trainer", "Trainer",
               (("epoch", "current_epoch"), ("global_step", "global_step"))),
    _Framework("transformers.trainer_callback", "TrainerState",
               (("epoch", "epoch"), ("global_step", "global_step"))),
    # It counts batches until gradients are applied, not steps.
    _Framework("accelerate.accelerator", "Accelerator", (("micro_step", "step"),)),
)


def labels() -> Iterator[Tuple[str, int]]:
    """("epoch", 3), ("global_step", 1207): of each trainer that is there."""
    present = []
    for framework in _FRAMEWORKS:
        kind = getattr(sys.modules.get(framework.module), framework.class_name, None)
        if isinstance(kind, type):
            present.append((framework, kind))
    if not present:
        return
    for (framework, _), trainers in zip(present, find_objects(*(kind for _, kind in present))):
        for trainer in trainers[:_MAX_TRAINERS]:
            for subject, attribute in framework.labels:
                value = _number(trainer, attribute)
                if value is not None:
                    yield subject, value


def _number(trainer: Any, attribute: str) -> Optional[int]:
    try:
        return int(getattr(trainer, attribute))
    except Exception:  # Not yet known, or of a version that has it elsewhere.
        return None


def tell_labels(note: Callable, kind: int, step: int) -> None:
    """Notes of all labels, as they are behind step `step`; each once."""
    for subject, value in sorted(set(labels())):
        note(kind, subject, "behind step %d" % step, value)

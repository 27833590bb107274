"""How many optimizers of each class train: several of one class look like one in torch's ranges.

Asked for a few times at most, and only by programs whose optimizer seems to be several.
"""

import sys
from typing import Any, Dict, List

from profd._objects import find_objects

# sys.getallocatedblocks(). A bare program with an optimizer has 1.2 million with torch 2.15.0 and 0.35
# million with 1.13.1. In larger ones it would hold the GIL for too long.
_MAX_BLOCKS = 2_000_000


def counts(torch: Any) -> Dict[str, int]:
    """By the name of the class, as torch's ranges have it. Empty: it would take too long."""
    if sys.getallocatedblocks() > _MAX_BLOCKS:
        return {}
    by_class: Dict[str, List[bool]] = {}
    found, = find_objects(torch.optim.Optimizer)
    for optimizer in found:
        by_class.setdefault(type(optimizer).__name__, []).append(_has_state(optimizer))
    # One without a state has not done a step yet, but of those that never have any.
    return {name: sum(stepped) or len(stepped) for name, stepped in by_class.items()}


def _has_state(optimizer: Any) -> bool:
    # Without running any code of the program's.
    state = object.__getattribute__(optimizer, "__dict__").get("state")
    return issubclass(type(state), dict) and dict.__len__(state) > 0

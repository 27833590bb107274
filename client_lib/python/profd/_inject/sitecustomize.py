"""What Python runs at its start where this folder is on PYTHONPATH: it watches for torch.

`profctl run` puts this folder first on PYTHONPATH; a job script can do so itself. Python imports
one module of this name only, so the one that would have been imported without us, the site's or
the distribution's, is imported from here, and what it raises is told as it would have been.

Costs: 0.2 ms, or 2 where Python may not keep its compiled form (tests/bench/python_start_bench.py).
    Every Python below the job runs this file, also old ones: it must be readable to Python 2.7, and
    does nothing of its own below 3.9.
Where it is not run: `python -I`, `-E` and `-S`, and programs that clear their environment.
"""

import os
import sys


def _import_the_one_behind():
    """Imports the sitecustomize that this one hides, if there is one."""
    ours = sys.modules.pop(__name__, None)
    here = os.path.dirname(__file__)
    # For good: children find the folder by the environment, and nothing else is in it.
    sys.path[:] = [folder for folder in sys.path if folder != here]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        # Python 2 does not say of what; to be quiet there is what its own site module does.
        if getattr(error, "name", __name__) != __name__:
            raise
    finally:
        # Whoever imports a module looks for it here afterwards.
        if __name__ not in sys.modules and ours is not None:
            sys.modules[__name__] = ours


if __name__ == "sitecustomize":
    if sys.version_info >= (3, 9):
        try:
            import _profd_hook
            _profd_hook.install()
        except Exception as failure:
            if os.environ.get("PROFD_LOG"):
                sys.stderr.write("profd: PyTorch is not watched for: %r\n" % (failure,))
    _import_the_one_behind()

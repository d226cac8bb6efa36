"""(function, arguments) -> calls of it on this machine's processes, on Dask or on Ray: joblib does the work.

Nothing travels back: a call leaves what it has done in the staging folder. So an engine need only call, and tell of the
first failure; what it was that failed is written in the error, and what was done stays.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import joblib

from flatmix.convert.staging import at_work
from flatmix.errors import ConvertError

Backend = Literal["local", "dask", "ray"]
BACKENDS = ("local", "dask", "ray")
BYTES_PER_WORKER = 2**23  # of the input; for less, another process costs more than it gives
_WATCH = 0.2  # seconds between looks for the parent


@dataclass(frozen=True)
class Engine:
    """Where calls go. workers: how many processes of this machine; None for what suits the work."""

    workers: int | None = None
    backend: Backend = "local"
    address: str | None = None  # of a scheduler of Dask, or of a cluster of Ray

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConvertError(f"backend must be {', '.join(BACKENDS)}, not {self.backend!r}")
        if self.workers is not None and (isinstance(self.workers, bool) or self.workers < 1):
            raise ConvertError(f"workers must be an integer of at least 1, not {self.workers}")
        if self.backend == "local" and self.address is not None:
            raise ConvertError(f"the address {self.address} is for a backend: give --backend dask or ray")
        if self.backend == "dask" and self.address is None:
            raise ConvertError("backend dask needs the address of its scheduler: --address tcp://HOST:8786")

    def run(
        self, folder: str, function: Callable[..., None], calls: Sequence[tuple], size: int, report: Callable[[], None]
    ) -> None:
        """Calls function(folder, *arguments) for each of `calls`, about `size` bytes of work in all.

        `report` is called after each, and may raise, which ends all. The first error of a call ends all as well;
        OSError where a process ended without one.
        """
        if self.backend == "local":
            workers = self.workers or max(1, min(joblib.cpu_count(), size // BYTES_PER_WORKER))
            workers = min(workers, len(calls))
            if workers <= 1:
                for arguments in calls:
                    function(folder, *arguments)
                    report()
                return
            threads = max(1, (self.workers or joblib.cpu_count()) // len(calls))
            leaving = {"initializer": _leave_with, "initargs": (os.getpid(),)}  # also those that wait for a first call
            settings = {"backend": "loky", "n_jobs": workers, **leaving}
            self._map(settings, folder, threads, function, calls, report)
            return
        with _connected(self.backend, self.address):
            jobs = self.workers or -1
            self._map({"backend": self.backend, "n_jobs": jobs}, folder, 1, function, calls, report)

    def _map(
        self,
        settings: dict[str, Any],
        folder: str,
        threads: int,
        function: Callable[..., None],
        calls: Sequence[tuple],
        report: Callable[[], None],
    ) -> None:
        call = joblib.delayed(_work)
        as_they_come = "list" if self.backend == "ray" else "generator_unordered"  # Ray's cannot do otherwise
        try:
            with joblib.parallel_config(**settings):
                parallel = joblib.Parallel(return_as=as_they_come, batch_size=1, pre_dispatch="2*n_jobs")
                with _interruptions_held() if self.backend == "local" else nullcontext():
                    done = parallel(call(folder, threads, function, arguments) for arguments in calls)
                for _ in done:
                    report()
        except KeyboardInterrupt:
            from joblib.externals.loky import get_reusable_executor

            if self.backend == "local":
                get_reusable_executor().shutdown(kill_workers=True)
            raise
        except Exception as error:
            if _lost_worker(error):
                raise OSError(
                    f"a worker process ended before its work did: it was killed, or there was no memory left "
                    f"({type(error).__name__}); what is done is kept in {folder}: run the same command again to go on"
                ) from error
            raise


def _lost_worker(error: Exception) -> bool:
    return type(error).__name__ in ("TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "WorkerCrashedError")


def _work(folder: str, threads: int, function: Callable[..., None], arguments: tuple) -> None:
    """What runs in a worker."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if threads == 1 else "true"
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    with at_work(folder):
        function(folder, *arguments)


def _leave_with(parent: int) -> None:
    """Ends this process as soon as its parent has gone; an interruption is the parent's to handle."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=look, name="flatmix-parent", daemon=True).start()


@contextmanager
def _connected(backend: str, address: str | None) -> Iterator[None]:
    try:
        if backend == "dask":
            import distributed

            connection = distributed.Client(address, set_as_default=True)
        else:
            import ray
            from ray.util.joblib import register_ray

            connection = nullcontext() if ray.is_initialized() else ray.init(address=address, log_to_driver=False)
            register_ray()
    except ImportError as error:
        raise ConvertError(
            f"backend {backend} needs a package that is not here: pip install 'flatmix[{backend}]'"
        ) from error
    except (OSError, ConnectionError, TimeoutError) as error:
        raise OSError(f"backend {backend} at {address} cannot be reached: {error}") from error
    with connection:
        yield


# numcodecs makes a semaphore when it is imported; that of a worker which is killed would be reported on the terminal.
_NO_LEAKS = "ignore::UserWarning:multiprocessing.resource_tracker"


@contextmanager
def _interruptions_held() -> Iterator[None]:
    """Processes that are started meanwhile never get SIGINT; one that comes just then is lost, and can be repeated."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.warnoptions.append(_NO_LEAKS)
    try:
        yield
    finally:
        sys.warnoptions.remove(_NO_LEAKS)
        signal.signal(signal.SIGINT, before)

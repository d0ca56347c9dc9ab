"""Fork again and again while other threads are busy; every child has ten seconds to do its work.

``python forking.py WORK COUNT MODEL.so`` prints how many children ended in which way. ``0`` means
right values, ``refused`` an error of tvmconv, anything else a signal or a traceback.
"""

from __future__ import annotations

import collections
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import programs

import tvmconv
from tvmconv.core.errors import TvmconvError
from tvmconv.model import CompiledModel, load

REFUSED = 7
X = np.ones((programs.BUSY_ROWS, programs.BUSY_LENGTH), "float32")


def calling(model: CompiledModel, path: Path) -> None:
    model.run(X)


def loading(model: CompiledModel, path: Path) -> None:
    load(path).run(X)


def saving(model: CompiledModel, path: Path) -> None:
    load(path).save(path.with_name(f"copy{threading.get_ident()}.so"))


def building(model: CompiledModel, path: Path) -> None:
    from tests.small_network import small_network

    tvmconv.build(small_network(), threads=1)


WORK: dict[str, Callable[[CompiledModel, Path], None]] = {
    work.__name__: work for work in (calling, loading, saving, building)
}


def child(model: CompiledModel, path: Path) -> int:
    signal.alarm(10)
    try:
        again = load(path).run(X)[0]
        right = np.allclose(again, programs.BUSY_TIMES * X.shape[1], rtol=1e-2)
        return 0 if right and np.array_equal(model.run(X)[0], again) else 1
    except TvmconvError as error:
        return REFUSED if "was forked while another thread" in str(error) else 1


def main(name: str, count: int, path: Path) -> None:
    model = load(path)
    model.run(X)
    end = threading.Event()

    def work() -> None:
        while not end.is_set():
            WORK[name](model, path)

    workers = [threading.Thread(target=work) for _ in range(1 if name == "building" else 2)]
    for worker in workers:
        worker.start()
    ways: collections.Counter[str] = collections.Counter()
    random = np.random.default_rng(0)
    for _ in range(count):
        time.sleep(random.uniform(0, 0.01))
        process = os.fork()
        if process == 0:
            os._exit(child(model, path))
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        ways["refused" if code == REFUSED else str(code)] += 1
    end.set()
    for worker in workers:
        worker.join()
    print(*(f"{way}:{number}" for way, number in sorted(ways.items())))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))

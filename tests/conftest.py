"""Settings that every test shares."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

# One process for each CPU runs tests. Idle threads of numpy and of TVM that poll for work would
# take the CPU of the other process. Both libraries read these when they are imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "0")

import pytest
from hypothesis import settings

from tests.audit import executable_only
from tvmconv.tvm_runtime.environment import set_environment_defaults

# A test may let TVM make the calling thread's pool. Left to itself TVM then binds that thread
# to one CPU, and every later test of the process would have this one CPU only.
set_environment_defaults()

# tuning records, measurements of this user and new shipped records must not change a test of
# something else
os.environ.setdefault("TVMCONV_TUNING_LOGS", "none")
os.environ.setdefault("TVMCONV_MACHINES", "none")

# every build of a test compiles; tests of the cache turn it on, each with a folder of its own
os.environ["TVMCONV_CACHE_SIZE"] = "0"

# Examples that compile a kernel take tenths of a second on a slow core, so a per-example
# deadline would only measure the machine. CI repeats the same examples on every run.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of collected tests stay to the end: the collector need not visit them each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees the estimates of an earlier run."""
    os.environ["TVMCONV_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def only_executable_code() -> Iterator[None]:
    """No test may get a function from code that this CPU cannot run."""
    with executable_only():
        yield

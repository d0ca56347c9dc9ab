from __future__ import annotations

import re

from tvmconv.core.version import package_version


def test_a_library_that_runs_from_its_sources_has_no_version():
    assert re.match(r"\d", package_version("apache-tvm"))
    assert package_version("no-such-package") == "absent"

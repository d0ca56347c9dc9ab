"""What ``bench`` can measure: suites, our algorithms, and peers with what is installed of them."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.lab import baselines as peer_table
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.worker_process import Contender
from tvmconv.measuring import suites as suite_files
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table


def list_report(peer_python: Sequence[str] = ()) -> Report:
    """The suites, and the peers with what is installed of them."""
    from tvmconv.lab.bench.rounds import Field

    suites = [
        {"suite": name, "layers": len(suite_files.load_problems(name))}
        for name in suite_files.names()
    ]
    plan = make_plan(peer_python=peer_python)
    contenders = [
        Contender(name, peer.module, plan.python(name)) for name, peer in peer_table.PEERS.items()
    ]
    with Field(contenders, 1, ()) as contest:
        contest.hello()
        versions, absent = contest.versions, contest.absent
    peers = [
        {
            "peer": name,
            "package": peer.distribution,
            "version": versions.get(name, "absent"),
            "measures": " and ".join(
                kind for kind in ("models", "layers", "products") if getattr(peer, kind)
            ),
            "message": absent.get(name, ""),
        }
        for name, peer in peer_table.PEERS.items()
    ]
    keys = ("peer", "package", "version", "measures", "message")
    return Report(
        kind="bench-list",
        title="What bench can measure",
        tables=(
            Table(
                "suites", "Suites", (Column("suite", "suite"), Column("layers", "layers")), suites
            ),
            Table("peers", "Peers", tuple(Column(key, key) for key in keys), peers),
        ),
    )

# SPDX-License-Identifier: Apache-2.0
"""Plans: which points, how many, in which order; the same for the same seed."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import metric, probe
from support.fake_catalog import CHAINS, ENTER, KIB, MACHINE, MIB, PAGES, PING, SIZE, catalog, two_packages
from tollmeter.catalog import Executable, read_suite
from tollmeter.model import (
    Build,
    Cache,
    Failure,
    FigureLine,
    Kind,
    Machine,
    MemoryNode,
    Parameter,
    Point,
    Program,
    Published,
    Role,
    RowOf,
    Select,
    StudyFigure,
    Suite,
    Topology,
    Value,
    Visit,
)
from tollmeter.plan import (
    Costs,
    Entry,
    Plan,
    expected_seconds,
    make_plan,
    measured_caches,
    values,
    visit_order,
)
from tollmeter.plan.effort import EFFORTS, Effort
from tollmeter.plan.placement import Placing, replacement_cpus
from tollmeter.plan.points import Ground, chosen, claim_rank, resolve
from tollmeter.protocol import words
from tollmeter.root import ROOT


def plan_of(
    *selects: Select, budget: float = 1000, seed: int = 1, abis: tuple[str, ...] = (), cpus: tuple[int, ...] = (),
    gaps: dict[str, str] | None = None, all_points: bool = False, machine: Machine = MACHINE,
) -> Plan:  # fmt: skip
    suite = Suite(name="s", question="?", select=selects)
    return make_plan(
        suite,
        catalog(gaps=gaps),
        machine,
        budget_seconds=budget,
        seed=seed,
        abis=abis,
        cpus=cpus,
        all_points=all_points,
    )


def values_of(plan: Plan, name: str) -> list[Value]:
    return list(dict.fromkeys(point.values()[name] for point in plan.points() if name in point.values()))


def test_what_takes_a_library_is_left_out_where_the_suite_says_so() -> None:
    """Nothing is brought for it, and no row of it is missing."""
    solved = Executable(
        path="", probe=msgspec.structs.replace(ENTER, probe="memory.solved", library="solver"),
        build=Build(probe="memory.solved", abi="x86_64", compiler="cc", flags=""),
    )  # fmt: skip
    with_it = catalog(abis=("x86_64",))
    with_it = msgspec.structs.replace(with_it, executables={**with_it.executables, ("memory.solved", "x86_64"): solved})
    whole, plain = Select(probe="memory.*"), Select(probe="memory.*", libraries=False)
    assert chosen(whole, with_it.probes()).keys() - chosen(plain, with_it.probes()).keys() == {"memory.solved"}
    named = {point.probe for point in resolve(plain, Ground(with_it, MACHINE, ())).points}
    assert named and "memory.solved" not in named


def test_the_first_run_waits_for_no_library() -> None:
    """Bringing four of them, and building with them, took as long as all else before its first number."""
    sources = [*(ROOT / "probes").glob("*/*.c"), *(ROOT / "probes").glob("*/*.cc")]
    has = re.compile(r"^ *\.library = ", re.MULTILINE)
    using = [f"{one.parent.name}.{one.stem}" for one in sources if has.search(one.read_text())]
    bringing = [one for one in read_suite(ROOT / "suites/default.toml").select if one.libraries]
    assert using and not [name for one in bringing for name in using if fnmatchcase(name, one.probe)]


# ---- values -----------------------------------------------------------------------------------------------------


def test_steps_are_equal_inside_every_doubling() -> None:
    assert list(values.steps(1024, 4096, 4)) == [1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096]
    assert list(values.steps(1, 9, 4)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert list(values.steps(0, 4, 1)) == [0, 1, 2, 4]


@given(st.integers(0, 5000), st.integers(0, 100_000), st.integers(1, 16))
def test_steps_grow_and_stay_inside(start: int, stop: int, per_octave: int) -> None:
    found = list(values.steps(start, stop, per_octave))
    assert found == sorted(set(found))
    assert all(start <= value <= max(start, stop) for value in found)


def test_a_sweep_ends_where_its_scale_says() -> None:
    assert values.sweep_values(SIZE, MACHINE)[-1] == 128 * MIB
    unknown = msgspec.structs.replace(MACHINE, caches=())
    assert values.sweep_values(SIZE, unknown)[-1] == 128 * MIB
    small = msgspec.structs.replace(MACHINE, memory_bytes=8 * MIB)
    assert values.sweep_values(SIZE, small)[-1] == 2 * MIB
    large = msgspec.structs.replace(MACHINE, caches=(Cache(level=3, kind="unified", size_bytes=96 * MIB),))
    assert values.sweep_values(SIZE, large)[-1] == 384 * MIB
    cpus = Parameter(name="n", kind="count", summary="", start=1, stop=2, stop_scale="cpus")
    allowed = msgspec.structs.replace(MACHINE, allowed_cpus=(0, 2, 3))
    assert values.read_value(cpus, "1xCPUS", allowed) == (3,) and values.portable(cpus, "1xCPUS") == "1xCPUS"
    assert values.sweep_values(cpus, MACHINE) == (1, 2, 4, 8)


def test_a_refined_sweep_begins_with_one_value_an_octave() -> None:
    grid = values.sweep_values(SIZE, MACHINE)
    begun = values.coarse(SIZE, grid)
    assert begun == tuple(KIB << octave for octave in range(18))
    assert set(begun) < set(grid)
    assert values.coarse(CHAINS, values.sweep_values(CHAINS, MACHINE)) == (1, 2, 3, 8)
    assert values.coarse(PAGES, ("small", "huge")) == ("small", "huge")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("4096", (4096,)),
        (4096, (4096,)),
        ("32KiB", (32 * KIB,)),
        ("1.5 mib", (1536 * KIB,)),
        ("0.0625GiB", (64 * MIB,)),
        ("0.00006103515625TiB", (64 * MIB,)),
        ("0.5xL1", (24 * KIB,)),
        ("2xL2", (4 * MIB,)),
        ("4xLAST", (128 * MIB,)),
        ("0.25xLAST", (512 * KIB,)),
        ("1xL3", (2 * MIB,)),
        ("1KiB..2KiB", (1024, 1280, 1536, 1792, 2048)),
    ],
)
def test_a_written_size_is_read(text: Value, read: tuple[int, ...]) -> None:
    assert values.read_value(SIZE, text, MACHINE) == read


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "32KB", "1e9", "0.3", "2KiB..1KiB", "..", "9" * 30, "0.5x", "1xL0", "\0", "1TiB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Failure) as caught:
        values.read_value(SIZE, text, MACHINE)
    assert caught.value.exit_code == 2


def test_a_count_takes_no_unit_and_a_choice_its_own_words() -> None:
    assert values.read_value(CHAINS, "5", MACHINE) == (5,)
    for parameter, text in ((CHAINS, "5KiB"), (CHAINS, "1xL1"), (PAGES, "hug"), (PAGES, 3)):
        with pytest.raises(Failure):
            values.read_value(parameter, text, MACHINE)


# ---- points -----------------------------------------------------------------------------------------------------


def test_a_selection_is_every_combination_of_its_values() -> None:
    plan = plan_of(Select(probe="memory.parallel", parameters={"chains": (1, 8)}))
    assert [point.parameters for point in plan.points()] == [
        (("chains", 1), ("pages", "small")),
        (("chains", 1), ("pages", "huge")),
        (("chains", 8), ("pages", "small")),
        (("chains", 8), ("pages", "huge")),
    ]


def test_parameters_stand_in_the_order_that_the_probe_declares() -> None:
    plan = plan_of(Select(probe="memory.parallel", parameters={"pages": "huge", "chains": 2}))
    assert plan.points()[0].parameters == (("chains", 2), ("pages", "huge"))


def test_others_typical_takes_one_value_of_what_is_not_named() -> None:
    plan = plan_of(Select(probe="memory.*", others="typical"))
    assert {(point.probe, point.parameters) for point in plan.points()} == {
        ("memory.latency", (("size", 16384), ("pages", "small"))),
        ("memory.parallel", (("chains", 1), ("pages", "small"))),
        ("memory.ping", ()),
    }


def test_native_is_the_first_abi_and_a_foreign_one_has_no_row() -> None:
    plan = plan_of(Select(probe="kernel.enter", abi=("native", "ia32", "sparc64")))
    assert [point.abi for point in plan.points()] == ["x86_64", "ia32"]
    assert not plan.gaps()


def test_an_abi_that_cannot_be_built_is_a_gap_with_its_reason() -> None:
    plan = plan_of(Select(probe="memory.*", abi=("x32",)), gaps={"x32": "x32 (no compiler)"})
    assert not plan.points()
    assert {(point.probe, point.abi) for point in plan.gaps()} == {
        ("memory.latency", "x32"), ("memory.parallel", "x32"), ("memory.ping", "x32"),
    }  # fmt: skip
    assert set(plan.gaps().values()) == {"x32 (no compiler)"}


def test_an_abi_that_is_asked_for_replaces_the_selection_s() -> None:
    select = Select(probe="memory.latency", parameters={"size": 4096, "pages": "huge"})
    assert [point.abi for point in plan_of(select, abis=("ia32",)).points()] == ["ia32"]


def test_a_glob_selects_the_probes_that_have_what_is_named() -> None:
    plan = plan_of(Select(probe="memory.*", parameters={"chains": 1}))
    assert {point.probe for point in plan.points()} == {"memory.parallel"}
    with pytest.raises(Failure):
        plan_of(Select(probe="memory.*", parameters={"chains": 1, "size": 1024}))


def test_a_selection_for_other_cpus_has_no_points() -> None:
    select = Select(probe="kernel.enter", cpu=("sparc",))
    assert [point.probe for point in plan_of(select, Select(probe="memory.ping")).points()] == ["memory.ping"]


def test_a_point_that_two_selections_name_is_visited_once() -> None:
    select = Select(probe="memory.latency", parameters={"size": 4096})
    assert len(plan_of(select, select).points()) == 2


def test_curves_are_there_for_swept_parameters_that_ask_for_refinement() -> None:
    swept = plan_of(Select(probe="memory.latency", parameters={"size": "1KiB..8KiB"})).curves()
    assert [curve.like.values()["pages"] for curve in swept] == ["small", "huge"]
    assert swept[0].grid == tuple(values.steps(1024, 8192, 4))
    assert swept[0].at(1280).parameters == (("size", 1280), ("pages", "small"))
    assert not plan_of(Select(probe="memory.latency", parameters={"size": (4096, 8192)})).curves()
    assert not plan_of(Select(probe="memory.parallel")).curves()


@pytest.mark.parametrize(
    "select",
    [
        Select(probe="memory.latency", parameters={"sise": 4096}),
        Select(probe="memory.latency", parameters={"pages": "gigantic"}),
        Select(probe="memory.latency", parameters={"size": "many"}),
    ],
)
def test_a_suite_that_names_what_is_not_there_is_refused(select: Select) -> None:
    with pytest.raises(Failure) as caught:
        plan_of(select)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (Select(probe="quantum.*"), "none of its probes is built"),
        (Select(probe="kernel.*", cpu=("pdp11", "vax")), "for pdp11 and vax, and this machine is"),
        (Select(probe="quantum.*", target=("local",)), "none of its probes is built"),
        (Select(probe="kernel.*", nodes=9), "its selections need 9 nodes with memory, and this machine has 1"),
        (
            Select(probe="kernel.*", target=("qemu-usr:arm",)),
            "no requested probe has a target of its selections: qemu-usr:arm",
        ),
    ],
)
def test_nothing_to_run_is_not_success(select: Select, reason: str) -> None:
    with pytest.raises(Failure, match=reason) as caught:
        plan_of(select)
    assert caught.value.exit_code == 6


# ---- CPUs -------------------------------------------------------------------------------------------------------


def test_single_workers_run_high_and_the_host_stays_low() -> None:
    plan = plan_of(Select(probe="kernel.enter"), Select(probe="memory.ping"))
    assert (plan.cpus, plan.host_cpu) == ((3, 2, 1), 0)
    enter, ping = plan.points()
    assert plan.placements(enter) == [(3,)]
    assert sorted(plan.placements(ping)) == [(2, 1), (3, 1), (3, 2)]


def test_what_a_probe_starts_may_go_to_every_cpu_that_is_measured_on() -> None:
    plan = plan_of(Select(probe="kernel.enter"))
    spreading = msgspec.structs.replace(plan.probes["kernel.enter"], spreads=True)
    plan = msgspec.structs.replace(plan, probes={**plan.probes, "kernel.enter": spreading})
    assert plan.placements(plan.points()[0]) == [(3, 2, 1)]


def of_two_packages(means: str, cpus: tuple[int, ...] = ()) -> tuple[Plan, dict[str, Point]]:
    """A plan of one probe whose number is about two CPUs; its points by their relation."""
    known = catalog(abis=("x86_64",))
    ping = known.executables["memory.ping", "x86_64"]
    (metric,) = ping.probe.metrics
    probe = msgspec.structs.replace(ping.probe, metrics=(msgspec.structs.replace(metric, means=means),))
    ping = msgspec.structs.replace(ping, probe=probe)
    known = msgspec.structs.replace(known, executables={**known.executables, ("memory.ping", "x86_64"): ping})
    suite = Suite(name="s", question="?", select=(Select(probe="memory.ping"),))
    plan = make_plan(suite, known, two_packages(), budget_seconds=9, seed=1, cpus=cpus)
    return plan, {str(point.values().get("relation", "")): point for point in plan.points()}


def test_traffic_beside_a_load_is_made_on_the_cpus_of_its_node() -> None:
    load = metric("load", means="latency-of-traffic")
    probe_ = probe(load, name="memory.loaded", roles=(Role(name="maker", worker="thread", pace="background"),))
    nodes = tuple(MemoryNode(node=node, cpus=cpus, memory_bytes=1 << 30) for node, cpus in ((0, "0-3"), (1, "4-7")))

    def placed(topology: Topology | None, node: int) -> list[tuple[int, ...]]:
        point = Point("memory.loaded", "x86_64", "local", (("node", node), ("delay", 64)))
        return Placing((7, 6, 5, 4, 3, 2, 1), topology, 1, 0).placements(point, probe_, 0)

    known = Topology(online="0-7", nodes=nodes)
    assert (placed(known, 0), placed(known, 1)) == ([(3, 2, 1)], [(7, 6, 5, 4)])
    assert placed(Topology(online="0-7"), 0) == placed(None, 0) == [(7, 6, 5, 4, 3, 2, 1)]


def test_a_comparison_of_all_cpus_has_the_hosts_too_and_short_batches() -> None:
    plan, points = of_two_packages("step-of-cpu")
    (point,) = points.values()
    assert plan.host_cpu == 0
    assert [sorted(cpus) for cpus in plan.placements(point)] == [[*range(8)]]
    assert plan.effort_of(point).sample_ns < Effort().sample_ns
    plan, points = of_two_packages("step-of-cpu", cpus=(1, 5))
    assert plan.placements(points[""]) == [(5, 1)] or plan.placements(points[""]) == [(1, 5)]


def test_what_a_line_costs_from_another_cpu_is_measured_once_for_each_relation() -> None:
    plan, points = of_two_packages("transfer-of-state")
    assert (plan.cpus, plan.host_cpu) == ((7, 5, 3, 1, 6, 4, 2), 0)
    assert {name: plan.placements(point)[0][:2] for name, point in points.items()} == {
        "": (7, 5), "sibling_thread": (7, 6), "other_node": (7, 3),
    }  # fmt: skip
    assert all(sorted(plan.placements(point)[0]) == sorted(plan.cpus) for point in points.values())
    assert "--relation=other_node" in words(plan.visit(1, points["other_node"], 0, (7, 3)))
    _, points = of_two_packages("transfer-of-state", cpus=(0, 1))
    assert [*points] == [""]


def test_a_matrix_has_the_pairs_of_each_relation_and_all_of_them_after_some_rounds() -> None:
    plan, points = of_two_packages("core-to-core")
    seen = {
        name: {pair for before in (0, 10) for pair in plan.placements(point, before)} for name, point in points.items()
    }
    assert {name: len(pairs) for name, pairs in seen.items()} == {"": 6, "sibling_thread": 3, "other_node": 12}
    assert len(plan.placements(points["other_node"], 0)) == 10
    assert not {*plan.placements(points["other_node"])} & {*plan.placements(points["other_node"], 10)[:2]}
    assert plan.visits_of_pairs(points["other_node"]) == 2 * plan.pairs(points["other_node"]) == 24


def test_memory_nodes_are_measured_each_from_each_where_there_are_several() -> None:
    """Nodes have any number; one without CPUs holds memory, and asks for none."""
    far = (MemoryNode(node=900, memory_bytes=1 << 34), MemoryNode(node=1000, cpus="8"))
    machine = two_packages()
    assert machine.topology is not None
    nodes = (*machine.topology.nodes, *far)
    topology = msgspec.structs.replace(machine.topology, nodes=nodes, allowed_nodes="0-1,900,1000")
    machine = msgspec.structs.replace(machine, topology=topology)
    axes = (("node", "cpu-nodes"), ("home", "memory-nodes"))
    parameters = tuple(
        Parameter(name=name, kind="count", summary="", stop_scale=scale)  # type: ignore[arg-type]
        for name, scale in axes
    )
    known = catalog(abis=("x86_64",))
    enter = known.executables["kernel.enter", "x86_64"]
    metric = msgspec.structs.replace(ENTER.metrics[0], means="latency-of-node")
    probe = msgspec.structs.replace(enter.probe, metrics=(metric,), parameters=parameters)
    enter = msgspec.structs.replace(enter, probe=probe)
    known = msgspec.structs.replace(known, executables={("kernel.enter", "x86_64"): enter})
    suite = Suite(name="s", question="?", select=(Select(probe="kernel.enter", nodes=2),))
    plan = make_plan(suite, known, machine, budget_seconds=9, seed=1)
    pairs = [tuple(point.values().values()) for point in plan.points()]
    assert pairs == [(node, home) for node in (0, 1) for home in (0, 1, 900)]
    select = Select(probe="kernel.enter", nodes=2, own_node=True)
    own = make_plan(msgspec.structs.replace(suite, select=(select,)), known, machine, budget_seconds=9, seed=1)
    assert [tuple(point.values().values()) for point in own.points()] == [(0, 0), (1, 1)]
    assert {point.values()["node"]: plan.placements(point) for point in plan.points()} == {0: [(3,)], 1: [(7,)]}
    probe = msgspec.structs.replace(probe, roles=PING.roles)
    crew = msgspec.structs.replace(enter, probe=probe)
    known = msgspec.structs.replace(known, executables={("kernel.enter", "x86_64"): crew})
    plan = make_plan(suite, known, machine, budget_seconds=9, seed=1)
    given = {point.values()["node"]: plan.placements(point) for point in plan.points()}
    assert given == {0: [(3, 1, 2)], 1: [(7, 5, 6, 4)]}
    with pytest.raises(Failure):
        make_plan(suite, known, MACHINE, budget_seconds=9, seed=1)


def test_folder_and_peer_are_passed_to_this_machines_probes_alone() -> None:
    plan = msgspec.structs.replace(plan_of(Select(probe="kernel.enter")), folder="/a b/%", peer="10.0.0.2,7")
    here = plan.points()[0]
    there = msgspec.structs.replace(here, target="ssh:board")
    told, untold = (plan.visit(1, point, 0, (3,)) for point in (here, there))
    assert {"--folder=/a%20b/%25", "--peer=10.0.0.2,7"} <= set(words(told))
    assert not [word for word in words(untold) if word.startswith(("--folder", "--peer"))]


def test_with_two_cpus_the_host_shares_the_lower_one() -> None:
    two = msgspec.structs.replace(MACHINE, allowed_cpus=(4, 7))
    suite = Suite(name="s", question="?", select=(Select(probe="kernel.enter"),))
    plan = make_plan(suite, catalog(), two, budget_seconds=9, seed=1)
    assert (plan.cpus, plan.host_cpu) == ((7, 4), 4)
    one = msgspec.structs.replace(MACHINE, allowed_cpus=(5,))
    plan = make_plan(suite, catalog(), one, budget_seconds=9, seed=1)
    assert (plan.cpus, plan.host_cpu) == ((5,), None)


def test_asked_cpus_are_used_in_their_order_and_forbidden_ones_refused() -> None:
    plan = plan_of(Select(probe="kernel.enter"), cpus=(0, 2))
    assert (plan.cpus, plan.host_cpu) == ((0, 2), 1)
    with pytest.raises(Failure) as caught:
        plan_of(Select(probe="kernel.enter"), cpus=(9,))
    assert caught.value.exit_code == 2


def test_a_cpu_of_its_kind_cache_and_node_may_stand_in_for_a_single_workers() -> None:
    machine = two_packages()
    assert replacement_cpus(machine, 6) == (6, 5)
    plan = plan_of(Select(probe="kernel.enter"), machine=machine)
    assert plan.also[0] == plan.cpus[0]
    assert plan_of(Select(probe="kernel.enter"), cpus=(0, 2)).also == ()
    pair = plan_of(Select(probe="memory.ping"), machine=machine)
    visit = pair.visit(0, pair.points()[0], 0, pair.placements(pair.points()[0])[0])
    assert visit.also == ()


# ---- order and effort -------------------------------------------------------------------------------------------

BOTH = (Select(probe="memory.latency"), Select(probe="memory.parallel"))


def test_the_order_follows_the_seed_and_the_round() -> None:
    plan = plan_of(*BOTH)
    order = visit_order(plan, plan.points(), 0)
    assert sorted(map(str, order)) == sorted(map(str, plan.points()))
    assert order == visit_order(plan, plan.points(), 0)
    assert order != visit_order(plan, plan.points(), 1)
    assert order != visit_order(plan_of(*BOTH, seed=2), plan.points(), 0)
    assert order != plan.points()


def test_a_single_selection_is_shuffled_too() -> None:
    plan = plan_of(Select(probe="memory.latency"))
    assert visit_order(plan, plan.points(), 0) != plan.points()


def test_every_selection_has_its_share_wherever_a_round_is_broken_off() -> None:
    plan = plan_of(*BOTH)
    order = visit_order(plan, plan.points(), 0)
    for cut in range(8, len(order)):
        share = sum(point.probe == "memory.latency" for point in order[:cut]) / cut
        whole = sum(point.probe == "memory.latency" for point in order) / len(order)
        assert abs(share - whole) <= 0.25


@pytest.mark.parametrize("seed", [2, 3])
def test_large_points_come_last_one_after_the_other(seed: int) -> None:
    sizes = {"size": (16384, 64 * MIB, 1024, 32 * MIB, 24 * MIB)}
    plan = plan_of(Select(probe="memory.latency", parameters=sizes), Select(probe="kernel.enter"), seed=seed)
    told = [int(point.values().get("size", 0)) for point in visit_order(plan, plan.points(), 0)]
    assert {*told[:-4]} == {0, 1024, 16384, 24 * MIB}
    assert sorted(told[-4:]) == [32 * MIB, 32 * MIB, 64 * MIB, 64 * MIB]


def test_of_a_study_the_points_come_first_that_its_claims_are_about() -> None:
    row = RowOf(probe="memory.parallel", abi="native", parameters={"chains": 8, "pages": "huge"})
    claim = Published(what="?", figure="?", row=RowOf(probe="memory.latency", parameters={"pages": "huge"}), over=row)
    plan = plan_of(*BOTH)
    study = msgspec.structs.replace(plan, suite=msgspec.structs.replace(plan.suite, published=(claim,)))
    order = visit_order(study, study.points(), 0)
    claimed = [point.values()["pages"] == "huge" and point.values().get("chains", 8) == 8 for point in order]
    assert any(claimed) and not all(claimed)
    assert claimed == sorted(claimed, reverse=True)
    assert sorted(map(str, order)) == sorted(map(str, plan.points()))


def figure(probe: str, drawn: Literal["curve", "points"]) -> StudyFigure:
    return StudyFigure(
        name=probe, what="?", shows="?", drawn=drawn, line=(FigureLine(name="?", row=RowOf(probe=probe)),)
    )


def test_behind_its_claims_come_the_lines_of_a_studys_tables_but_no_place_that_answers_none() -> None:
    suite = Suite(
        name="old-paper", question="?", select=(Select(probe="*"),), program=(Program(what="line", probe="any.line"),),
        published=(Published(what="?", figure="?", row=RowOf(probe="any.claim", parameters={"size": 8})),),
        figure=(figure("any.single", "points"), figure("any.curve", "curve")),
    )  # fmt: skip

    def rank(probe: str, target: str = "local", size: int = 8) -> int:
        return claim_rank(suite, Point(probe=probe, abi="x86_64", target=target, parameters=(("size", size),)))

    assert [rank("any.claim"), rank("any.line", "guest:x32"), rank("any.claim", size=9)] == [0, 1, 2]
    assert rank("any.claim", "qemu-user:x86_64") == 2
    assert [rank("any.single"), rank("any.curve")] == [1, 2]


def test_a_long_budget_of_few_points_lets_a_visit_take_long() -> None:
    """A gigabyte of a program takes a minute."""

    def deadline_s(budget_s: float) -> float:
        plan = plan_of(Select(probe="memory.latency", parameters={"size": 4096, "pages": "small"}), budget=budget_s)
        (point, *_) = plan.points()
        return plan.visit(0, point, 0, (1,)).deadline_ms / 1000 * len(plan.points())

    assert deadline_s(10) == deadline_s(1)
    assert deadline_s(600) == 600


def test_a_point_works_on_the_same_data_under_every_abi() -> None:
    plan = plan_of(*BOTH)
    one = next(point for point in plan.points() if "size" in dict(point.parameters))
    size = dict(one.parameters)["size"]
    there = msgspec.structs.replace(one, abi="other", target="guest:other")
    larger = msgspec.structs.replace(one, parameters=(*one.parameters, ("size", int(size) + 1)))
    seeds = [plan.visit(0, point, 0, (1,)).seed for point in (one, there, larger)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_the_lines_of_the_toll_table_come_before_the_rest() -> None:
    """They are what a run is looked at for: however short it is, they are there."""
    plan = plan_of(*BOTH)
    walk = plan.probes["memory.latency"]
    line = msgspec.structs.replace(walk.metrics[0], toll="a load")
    usual = {"pages": "huge"}
    pages = [msgspec.structs.replace(one, typical=usual.get(one.name)) for one in walk.parameters]
    told = msgspec.structs.replace(walk, metrics=(line,), parameters=tuple(pages))
    plan = msgspec.structs.replace(plan, probes={**plan.probes, "memory.latency": told})
    order = visit_order(plan, plan.points(), 0)
    typical = [point.values()["pages"] == "huge" for point in order if point.probe == "memory.latency"]
    assert any(typical) and not all(typical) and typical == sorted(typical, reverse=True)


def test_a_plan_of_many_points_prices_each_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was priced five times: 100,000 points took 14 s to plan."""
    priced, visit_s = list[Point](), Costs.visit_s

    def counted(costs: Costs, point: Point, effort: Effort) -> float:
        priced.append(point)
        return visit_s(costs, point, effort)

    monkeypatch.setattr(Costs, "visit_s", counted)
    many = Select(probe="memory.latency", parameters={"size": [4096 * number for number in range(1, 50)]})
    plan = plan_of(many, budget=2)
    assert plan.effort == EFFORTS[-1] and len(priced) <= 2 * len(plan.points())


def test_a_small_budget_takes_less_effort() -> None:
    rich, poor = plan_of(*BOTH, budget=1000), plan_of(*BOTH, budget=1.5)
    assert rich.effort == EFFORTS[0]
    assert expected_seconds(poor) < expected_seconds(rich)
    assert (poor.effort.samples, poor.effort.sample_ns) < (rich.effort.samples, rich.effort.sample_ns)


def test_a_budget_that_is_too_short_for_most_points_measures_the_typical_ones_and_every_octave_of_a_curve() -> None:
    """A page kind has a typical value, and a size is what a curve is drawn over; chains have none, and all stay."""
    both = Select(probe="memory.latency", narrows=True), Select(probe="memory.parallel", narrows=True)
    whole = plan_of(*both)
    assert not whole.asked
    short = plan_of(*both, budget=whole.asked_s - 0.1)
    assert short.asked == len(whole.points()) and short.asked_s == whole.asked_s
    assert values_of(short, "pages") == ["small"]
    assert values_of(short, "size") == values_of(whole, "size")
    assert values_of(short, "chains") == values_of(whole, "chains")
    assert all(curve.like.values()["pages"] == "small" for curve in short.curves())
    assert plan_of(*both, budget=whole.asked_s - 0.1, all_points=True).points() == whole.points()
    shortest = plan_of(*both, budget=0.1)
    assert values_of(shortest, "size") == [16384] and not shortest.curves()


def test_what_is_named_and_what_a_suite_asks_for_are_measured_in_any_budget() -> None:
    named = Select(probe="memory.parallel", parameters={"pages": "huge"}, narrows=True)
    suite = Select(probe="memory.latency")
    short, whole = plan_of(named, suite, budget=0.1), plan_of(named, suite)
    assert short.points() == whole.points() and not short.asked
    assert short.asked_s > short.budget_seconds


def test_where_instructions_are_counted_a_run_is_planned_for_one_visit_of_each_point() -> None:
    timed = plan_of(*BOTH)
    there = [msgspec.structs.replace(point, target="qemu-user:mipsel") for point in timed.points()]
    counted = msgspec.structs.replace(timed, entries=(Entry(points=tuple(there)),))
    once = sum(timed.costs().visit_s(point, timed.effort) for point in timed.points())
    assert expected_seconds(timed) > 5 * once
    assert expected_seconds(counted) == pytest.approx(
        sum(timed.costs().visit_s(point, timed.effort) for point in there)
    )


def test_sizes_of_the_hosts_caches_mean_nothing_where_instructions_are_counted() -> None:
    """Walks over four times a last cache of 260 MiB took a third of the rows from an emulated default run."""
    huge = msgspec.structs.replace(MACHINE, caches=(Cache(level=3, kind="unified", size_bytes=256 * MIB),))
    beyond = Select(probe="memory.latency", parameters={"size": "4xLAST"})
    largest = {}
    for target in ("local", "qemu-user:mipsel"):
        there = catalog(abis=("x86_64",))
        moved = {place: msgspec.structs.replace(one, target=target) for place, one in there.executables.items()}
        ground = Ground(msgspec.structs.replace(there, executables=moved), huge, ())
        largest[target] = max(int(point.values()["size"]) for point in resolve(beyond, ground).points)
    assert largest == {"local": 1024 * MIB, "qemu-user:mipsel": 4 * MIB}


def visit_of(plan: Plan, point: Point, samples: int) -> Visit:
    return msgspec.structs.replace(plan.visit(0, point, 0, ()), samples=samples, sample_ns=300_000)


def test_costs_are_learned() -> None:
    plan = plan_of(Select(probe="memory.latency"))
    costs: Costs = plan.costs()
    small, *_, large = sorted(plan.points(), key=lambda point: int(point.values()["size"]))
    effort, longer = Effort(samples=1, sample_ns=1000), Effort(samples=1, sample_ns=1001000)
    assert costs.visit_s(large, effort) > costs.visit_s(small, effort)
    seconds = 2.0 + effort.sample_s()
    costs.learn(visit_of(plan, large, 1), effort, seconds, is_first=True, stays=True)
    assert costs.first_visit_s(large, effort) == pytest.approx(seconds)
    served = costs.visits_of_layout(large, effort)
    assert served > 1
    assert costs.visit_s(large, effort) < 2.0 / served + 0.1, "a start is shared by the visits that its layout serves"
    more = longer.sample_s() - effort.sample_s()
    assert costs.first_visit_s(large, longer) == pytest.approx(costs.first_visit_s(large, effort) + more)


def test_a_resident_visits_cost_is_learned_separately_from_its_set_up() -> None:
    plan = plan_of(Select(probe="kernel.enter"))
    costs, point, effort = plan.costs(), plan.points()[0], plan.effort
    sampling_s = 12 * effort.sample_s()
    for seconds, is_first in ((0.5, False), (2.5, True)):
        costs.learn(visit_of(plan, point, 12), effort, seconds + sampling_s, is_first=is_first, stays=True)
    beyond = effort.samples * effort.sample_s()
    assert costs.first_visit_s(point, effort) == pytest.approx(0.5 + 2.0 + beyond)
    assert costs.visit_s(point, effort) == pytest.approx(0.5 + 2.0 / costs.visits_of_layout(point, effort) + beyond)


def planned_with(**changed: Any) -> Visit:
    """The visit to a probe that differs in this from one that has nothing beside it."""
    like = catalog()
    changed_probe = msgspec.structs.replace(like.probes()["kernel.enter"], **changed)
    made = {place: msgspec.structs.replace(one, probe=changed_probe) for place, one in like.executables.items()
            if one.probe.probe == "kernel.enter"}  # fmt: skip
    suite = Suite(name="s", question="?", select=(Select(probe="kernel.enter"),))
    plan = make_plan(suite, msgspec.structs.replace(like, executables=made), MACHINE, budget_seconds=10, seed=1)
    return visit_of(plan, plan.points()[0], 4)


def role(pace: Literal["lockstep", "background"]) -> Role:
    return Role(name="partner", worker="thread", pace=pace)


@pytest.mark.parametrize(
    ("changed", "sets_up_first"),
    [
        ({}, True),
        ({"faults": True}, True),
        ({"roles": (role("background"),)}, True),
        ({"roles": (role("background"), role("lockstep"))}, False),
        ({"switches": True}, False),
        ({"spreads": True}, False),
    ],
)
def test_a_layout_whose_set_up_moves_no_worker_is_set_up_before_its_visit(
    changed: dict[str, Any], sets_up_first: bool
) -> None:
    assert planned_with(**changed).sets_up_first == sets_up_first


def test_a_layout_can_be_had_again_and_differs_from_the_next() -> None:
    plan = plan_of(Select(probe="kernel.enter"))
    point = plan.points()[0]
    visit = plan.visit(0, point, 0, (3,))
    assert visit == plan.visit(0, point, 0, (3,))
    assert visit.seed == plan.visit(1, point, 1, (3,)).seed, "another visit of the same layout"
    assert visit.seed != plan.visit(1, point, 1, (3,), layout=1).seed
    assert visit.seed != plan.visit(0, point, 0, (2,)).seed
    assert 0 <= visit.seed < 2**63


def test_a_selection_may_be_for_a_place_that_an_abi_does_not_usually_run_on() -> None:
    loaded = catalog()
    able = {key: msgspec.structs.replace(made, could=("bare:one",)) for key, made in loaded.executables.items()}

    def places(*selects: Select) -> set[str]:
        suite = Suite(name="s", question="?", select=selects)
        able_ones = msgspec.structs.replace(loaded, executables=able)
        made = make_plan(suite, able_ones, MACHINE, budget_seconds=9, seed=1)
        return {point.target for point in made.points()}

    usual, board = Select(probe="kernel.enter"), Select(probe="kernel.enter", target=("bare:*",))
    assert places(usual) == {"local"}
    assert places(board) == {"bare:one"}
    assert places(usual, board) == {"local", "bare:one"}


def test_a_selection_for_some_places_leaves_the_others_out() -> None:
    everywhere = plan_of(Select(probe="kernel.enter")).points()
    assert everywhere and {point.target for point in everywhere} == {"local"}
    assert plan_of(Select(probe="kernel.enter", target=("ssh:*", "loc*"))).points() == everywhere
    board = Select(probe="kernel.enter", target=("ssh:*",))
    assert plan_of(board, Select(probe="kernel.enter")).points() == everywhere
    with pytest.raises(Failure) as caught:
        plan_of(board)
    assert caught.value.exit_code == 6


def test_of_a_hybrid_the_caches_are_those_of_the_cpu_that_is_measured() -> None:
    small, large = (Kind(cpus=cpus, caches=(Cache(level=2, kind="unified", size_bytes=size),))
                    for cpus, size in (((0, 1), 4 * MIB), ((2, 3), 2 * MIB)))  # fmt: skip
    machine = msgspec.structs.replace(MACHINE, kinds=(small, large))
    assert measured_caches(machine, ()).caches == large.caches, "the highest CPU is measured unless told otherwise"
    assert measured_caches(machine, (1, 3)).caches == small.caches
    assert measured_caches(MACHINE, (1,)) == MACHINE


@pytest.mark.parametrize(
    ("cpus", "cores", "wanted", "host"),
    [
        (4, ((0, 1), (2, 3)), (3, 1, 2), 0),
        (8, ((0, 4), (1, 5), (2, 6), (3, 7)), (7, 6, 5, 4, 3, 2, 1), 0),
        (8, ((0, 1), (2, 3), (4, 5), (6, 7)), (7, 5, 3, 1, 6, 4, 2), 0),
        (4, (), (3, 2, 1), 0),
    ],
    ids=["two cores", "second threads numbered last", "threads numbered together", "one thread each"],
)
def test_workers_are_on_distinct_cores_first(
    cpus: int, cores: tuple[tuple[int, ...], ...], wanted: tuple[int, ...], host: int
) -> None:
    machine = msgspec.structs.replace(MACHINE, cpus=cpus, allowed_cpus=tuple(range(cpus)), cores=cores)
    suite = Suite(name="s", question="?", select=(Select(probe="kernel.enter"),))
    plan = make_plan(suite, catalog(), machine, budget_seconds=9, seed=1)
    assert (plan.cpus, plan.host_cpu) == (wanted, host)

"""`spinney replay`: a trace of gangs over a described cluster in simulated time, for several settings side by side.

Asks no cluster and no clock: the same files and options always print the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spinney.cli.options import UNREADABLE, output_option, print_structured, screen, stop

if TYPE_CHECKING:
    from spinney.sim.replay.figures import Figures
    from spinney.sim.replay.occupancy import Setting
    from spinney.sim.replay.simulation import ReplayInputs

_INTERRUPTED = 130
_FILE = click.Path(path_type=Path, allow_dash=True)


@click.command(
    epilog="""\b
Examples:
  spinney replay examples/traces/philly-gangs.csv --nodes examples/traces/lingjun-topology.csv
  spinney replay my-trace.csv --nodes nodes.yaml --topology topology.yaml --limit 500
  spinney replay my-trace.csv --nodes nodes.yaml --setting binpack --setting binpack+consolidation
  spinney replay my-trace.csv --nodes nodes.yaml --rule 8=host --rule 32=rack --rule '*=block:rack'
  spinney replay my-trace.csv --nodes nodes.yaml --plots pictures -o json | jq '.settings[].waitingS'

\b
A setting is binpack or spread, with +consolidation (moves make room for a gang
that fits nowhere) and +fifo (no gang overtakes one that waits) where wanted.
A trace is CSV with arrival_s, gpus and duration_s or steps.
Exit status: 0 when the replay ran, whatever was placed; 2 when a file, a rule
or a setting cannot be used.
""",
)
@click.argument("trace", type=_FILE)
@click.option("--nodes", required=True, type=_FILE, metavar="FILE", help="Nodes, as for spinney up, or a CSV of hosts.")
@click.option(
    "--topology", type=_FILE, metavar="FILE", help="A ClusterTopology. Default: the levels of the nodes file."
)
@click.option(
    "--setting", "settings", multiple=True, metavar="NAME", help="May be given several times. Default: binpack, spread."
)
@click.option(
    "--queues", type=_FILE, metavar="FILE", help="Queues; the trace's virtual_cluster says in which one a gang is."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N arrivals.")
@click.option(
    "--load",
    type=click.FloatRange(0.0, 100.0, min_open=True),
    metavar="X",
    help="Stretch run times until gangs ask for this share of all GPUs. Default: 0.7, or as recorded if in seconds.",
)
@click.option(
    "--seconds-per-step",
    "stretch",
    type=click.FloatRange(0.0, 1e12, min_open=True),
    metavar="X",
    help="How long a step lasts; for a trace in seconds, a factor. Instead of --load.",
)
@click.option(
    "--gpus-times", type=click.IntRange(1, 10_000), default=1, metavar="N", help="Multiply what gangs ask for."
)
@click.option("--gpus-per-pod", type=click.IntRange(1, 10_000), metavar="N", help="Default: those of the largest node.")
@click.option("--rule", "rules", multiple=True, metavar="GPUS=LEVEL[:PREFERRED]", help="Which level a gang needs.")
@click.option("--resource", default="nvidia.com/gpu", show_default=True, metavar="NAME", help="What GPUs are called.")
@click.option("--max-moves", type=click.IntRange(1, 999), default=8, show_default=True, help="For one gang.")
@click.option(
    "--max-loss", type=click.FloatRange(0.0, 1.0), default=0.0, show_default=True, help="Of a moved gang's score."
)
@click.option(
    "--moves-every",
    type=click.IntRange(0),
    default=43_200,
    show_default=True,
    help="Seconds between searches for moves.",
)
@click.option(
    "--move-cost",
    type=click.IntRange(0),
    default=300,
    show_default=True,
    help="Seconds that a moved gang runs longer, or a reclaimed one.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For traces that say nothing about time.")
@click.option(
    "--plots", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write pictures (SVG) into DIR."
)
@output_option
def replay(
    trace: Path,
    nodes: Path,
    topology: Path | None,
    queues: Path | None,
    settings: tuple[str, ...],
    plots: Path | None,
    output: str,
    **options: Any,
) -> None:
    """Replay a trace of gangs on described nodes and print how they fared: placed, waiting, levels, fragmentation.

    Every setting gets the same arrivals. The engine is the scheduler's own; time is simulated.
    """
    if options["load"] is not None and options["stretch"] is not None:
        raise click.UsageError("--load and --seconds-per-step exclude each other: each says how long gangs run")
    if [trace, nodes, topology, queues].count(Path("-")) > 1:
        raise click.UsageError("only one of TRACE, --nodes, --topology and --queues can be standard input")
    inputs, chosen = _read(trace, nodes, topology, queues, settings, **options)
    found = _run(inputs, chosen)
    if plots is not None:
        _write_plots(plots, inputs, found)
    _print(inputs, found, (_shown(trace), _shown(nodes)), output)


def _read(
    trace: Path,
    nodes: Path,
    topology: Path | None,
    queues: Path | None,
    settings: tuple[str, ...],
    *,
    resource: str,
    limit: int | None,
    gpus_times: int,
    max_moves: int,
    max_loss: float,
    moves_every: int,
    move_cost: int,
    **schedule: Any,
) -> tuple[ReplayInputs, list[Setting]]:
    """The files, and what is made of them; `schedule` says how long gangs run and how many GPUs their pods have."""
    from spinney.api.placement.problem import Consolidate
    from spinney.sim.replay.cluster import read_hosts, read_levels
    from spinney.sim.replay.gang_shapes import RuleError
    from spinney.sim.replay.occupancy import DEFAULT_SETTINGS, SettingError, read_settings
    from spinney.sim.replay.queues import read_queues
    from spinney.sim.replay.simulation import MoveSettings, replay_inputs
    from spinney.sim.replay.trace import InputError, part_of, read_trace
    from spinney.whatif.inputs.nodes import NodesError

    try:
        chosen = read_settings(settings or DEFAULT_SETTINGS, Consolidate(max_moves, max_loss))
        levels = read_levels(_content(topology), _shown(topology)) if topology is not None else None
        described = read_hosts(_content(nodes), _shown(nodes), resource, levels)
        jobs = part_of(read_trace(_content(trace), _shown(trace)), limit, gpus_times)
        shared = read_queues(_content(queues), _shown(queues)) if queues is not None else ()
        moving = MoveSettings(moves_every, move_cost)
        return replay_inputs(described, jobs, resource=resource, moving=moving, queues=shared, **schedule), chosen
    except (NodesError, InputError, RuleError, SettingError) as error:
        stop("replay", str(error), UNREADABLE)


def _run(inputs: ReplayInputs, settings: Sequence[Setting]) -> list[Figures]:
    from spinney.sim.replay.figures import figures
    from spinney.sim.replay.simulation import replay as run

    found = []
    try:
        for setting in settings:
            with click.progressbar(
                length=2 * len(inputs.schedule.arrivals),
                label=setting.name,
                file=sys.stderr,
                hidden=not sys.stderr.isatty(),
            ) as bar:
                found.append(figures(inputs, run(inputs, setting, bar.update)))
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    return found


def _write_plots(directory: Path, inputs: ReplayInputs, found: Sequence[Figures]) -> None:
    from spinney.sim.replay.plots import plots

    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, picture in plots(inputs, found).items():
            (directory / name).write_text(picture, encoding="utf-8")
    except OSError as error:
        stop("replay", f"--plots {directory}: cannot be written: {error.strerror}", UNREADABLE)


def _print(inputs: ReplayInputs, found: Sequence[Figures], files: tuple[str, str], output: str) -> None:
    if output == "table":
        from spinney.cli.render.replay import table

        click.echo(table(inputs, found, files, screen().width), nl=False)
        return
    from spinney.sim.replay.figures import to_json

    print_structured(to_json(inputs, files[0], found), output)


def _shown(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _content(path: Path) -> str:
    from spinney.api.documents import DocumentError

    try:
        return _bounded(path).decode()
    except OSError as error:
        stop("replay", f"{path}: cannot be read: {error.strerror}", UNREADABLE)
    except DocumentError as error:
        stop("replay", str(error), UNREADABLE)
    except ValueError:  # a name with a zero byte in it
        stop("replay", f"{str(path)!r}: cannot be read: no such file", UNREADABLE)


def _bounded(path: Path) -> bytes:
    from spinney.api.documents import INVENTORY, read_bounded

    if str(path) == "-":
        return read_bounded(sys.stdin.buffer, _shown(path), INVENTORY)
    with path.open("rb") as stream:
        return read_bounded(stream, _shown(path), INVENTORY)

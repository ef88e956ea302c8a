# SPDX-License-Identifier: Apache-2.0
"""`oxbus stage list | discard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oxbus.cli._exit_codes import DONE, CommandError
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import plain, print_json
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Callable, Iterable

    from oxbus.management import StageProperties

_COLUMNS: Final = ("stage", "entity", "status", "rows", "bytes", "created", "expires", "sink", "batch", "reason")


def add_stage_commands(add: Callable[..., ArgumentParser]) -> None:
    """Add the commands."""
    listing = add("list", "show the stages that no commit has published", _list)
    listing.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(listing)
    discard = add("discard", "remove a stage; the rows of a damaged stage are lost", _discard)
    discard.add_argument("stage_id", metavar="ID", help="the id of the stage")
    discard.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(discard)


def print_stages(stages: Iterable[StageProperties]) -> None:
    """Print a table of stages."""
    rows = [
        (
            stage.stage_id,
            stage.entity,
            stage.status,
            stage.row_count,
            stage.size_in_bytes,
            stage.created_at_utc,
            stage.expires_at_utc,
            stage.sink,
            stage.batch,
            stage.reason,
        )
        for stage in stages
    ]
    print_table(_COLUMNS, rows, right=("rows", "bytes", "batch"))


def _list(options: Options) -> int:
    with open_bus(options) as bus:
        stages = list(bus.admin.list_stages())
        if options.json:
            print_json(plain(stages))
        else:
            print_stages(stages)
    return DONE


def _discard(options: Options) -> int:
    with open_bus(options) as bus:
        if not bus.admin.discard_stage(options.stage_id):
            raise CommandError(f"the stage does not exist; `oxbus stage list` shows all stages: `{options.stage_id}`")
    if options.json:
        print_json({"discarded": options.stage_id})
    return DONE

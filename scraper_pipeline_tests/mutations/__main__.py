"""Breaks each rule in a copy of the sources, and prints which test notices.

Use: python -m scraper_pipeline_tests.mutations
"""

import argparse
import sys

from scraper_pipeline_tests.mutations.breakage import Breakage
from scraper_pipeline_tests.mutations.catalogue import BREAKAGES
from scraper_pipeline_tests.mutations.running import SourceTree, Verdict


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", metavar="TEXT", default="", help="breakages with this in their name")
    options.add_argument("--list", action="store_true", help="name them, and run nothing")
    options.add_argument("--without-machine", action="store_true", help="leave the state machine out")
    asked = options.parse_args()
    chosen = [breakage for breakage in BREAKAGES if asked.only in breakage.name]
    if asked.list:
        print(*(breakage.name for breakage in chosen), sep="\n")
        return 0
    print("| broken | also broken | noticed by | s | state machine, s |\n|---|---|---|---|---|")
    with SourceTree.copied() as tree:
        escaped = [one for one in chosen if not _is_noticed(tree, one, not asked.without_machine)]
        sound = tree.run(sorted({test.partition("::")[0] for one in chosen for test in one.tests}))
    print(f"\n{len(chosen)} breakages, {len(escaped)} unnoticed: {[one.name for one in escaped]}")
    print(
        "The same tests pass on the sound source."
        if not sound.test
        else f"The sound source fails {sound.test}."
    )
    return 1 if escaped or sound.test else 0


def _is_noticed(tree: SourceTree, breakage: Breakage, with_machine: bool) -> bool:
    with tree.broken(breakage):
        by_test = tree.run(breakage.tests, breakage.postgres)
        by_machine = tree.run_machine() if with_machine and breakage.by_machine else None
    print(
        f"| {breakage.name} | {breakage.also_broken} | {by_test.test or '**nothing**'} | {by_test.seconds:.0f} "
        f"| {_machine_column(by_machine)} |",
        flush=True,
    )
    return bool(by_test.test) and (by_machine is None or bool(by_machine.test))


def _machine_column(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return f"{verdict.seconds:.0f}" if verdict.test else "**not noticed**"


if __name__ == "__main__":
    sys.exit(main())

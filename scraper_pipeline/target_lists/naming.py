"""What SCRAPER_TARGETS names: one list, or the file that names several."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from scraper_pipeline.ledger import DEFAULT_ACCOUNT
from scraper_pipeline.target_lists.catalogue import load_catalogue
from scraper_pipeline.target_lists.entries import TargetListError
from scraper_pipeline.target_lists.lists import TargetList
from scraper_pipeline.target_lists.sources import Location


def load_target_lists(location: str, accounts: Sequence[str] = (DEFAULT_ACCOUNT,)) -> tuple[TargetList, ...]:
    """The lists at a location: those of a `.yaml` file, or the one that lives there, which is not looked at yet.

    A file may give each list to one of these accounts; a list by itself is the default account's.

    Raises TargetListError for a file of lists that is absent or wrong.
    """
    path = Path(location).expanduser()
    if path.suffix.lower() in (".yaml", ".yml") and "://" not in location:
        return load_catalogue(path, accounts)
    return (TargetList(Location(location)),)


def choose_lists(lists: Sequence[TargetList], names: Sequence[str]) -> tuple[TargetList, ...]:
    """Those of the lists that are named, in their own order; all of them if none is. Raises TargetListError."""
    known = [one.name for one in lists]
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]}?" if close else _known(known)
            raise TargetListError(f"there is no list named {name!r}; {meant}")
    return tuple(one for one in lists if not names or one.name in names)


def _known(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if len(names) > 1 else f"the only one is {names[0]}"

"""A file of several lists is read as people write it, and whatever is wrong with it is told at once, with its lines."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import jsonschema
import pytest
import yaml

from scraper_pipeline.ledger import ListTerms, Target
from scraper_pipeline.settings import project_folder
from scraper_pipeline.target_lists import TargetList, TargetListError, choose_lists, load_target_lists
from scraper_pipeline.target_lists.schema import SCHEMA, schema_text

DAY = date(2026, 1, 31)
Load = Callable[[str], tuple[TargetList, ...]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(content: str) -> tuple[TargetList, ...]:
        path = tmp_path / "targets.yaml"
        path.write_text(content)
        return load_target_lists(str(path))

    return load


def fault_of(load: Load, content: str) -> str:
    with pytest.raises(TargetListError) as caught:
        load(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def targets_of(one: TargetList, day: date = DAY) -> list[Target]:
    entries = list(one.read(day))
    assert all(isinstance(entry, Target) for entry in entries), entries
    return [entry for entry in entries if isinstance(entry, Target)]


class TestWhatIsRight:
    def test_lists_come_in_their_order_with_all_that_they_say(self, load: Load) -> None:
        shops, rest = load(
            "lists:\n"
            "  shops:\n"
            "    source: shops.csv\n"
            "    schedule: '30  6 * * mon-fri'\n"
            "    budget: {max_pages_per_day: 20, max_pages_per_month: 300}\n"
            "  rest: {source: 'https://a.example/sitemap.xml'}\n"
        )
        assert (shops.name, shops.schedule) == ("shops", "30 6 * * mon-fri")
        assert shops.terms == ListTerms("shops", 20, 300)
        assert (rest.terms, rest.schedule) == (ListTerms("rest"), "daily")

    def test_a_row_comes_before_its_lists_defaults_and_carries_the_lists_name(
        self, load: Load, tmp_path: Path
    ) -> None:
        (tmp_path / "shops.csv").write_text(
            "url,render_js,country,team\nhttps://a.example/1,,,\nhttps://a.example/2,false,fr,mine\n"
        )
        (shops,) = load(
            "lists:\n"
            "  shops:\n"
            "    source: shops.csv\n"
            "    options: {render_js: yes, country: NO, formats: [html, markdown], wait_timeout: 500}\n"
            "    labels: {team: prices, since: 2026-01-31, weight: 010}\n"
        )
        plain, own = targets_of(shops)
        assert plain.options == {
            "formats": ["markdown", "html"], "render_js": True, "country": "NO", "wait_timeout": 500,
        }  # fmt: skip
        assert plain.labels == {"team": "prices", "since": "2026-01-31", "weight": "010", "list": "shops"}
        assert (own.options.get("render_js"), own.options["country"]) == (None, "FR")
        assert own.labels["team"] == "mine"

    def test_paths_are_below_the_files_folder_and_hold_the_day(self, load: Load, tmp_path: Path) -> None:
        (shops,) = load("lists: {shops: {source: 'lists/{date:%Y/%m}/shops-{date}.txt'}}\n")
        path = tmp_path / "lists" / "2026" / "01" / "shops-2026-01-31.txt"
        path.parent.mkdir(parents=True)
        path.write_text("https://a.example\n")
        assert [target.url for target in targets_of(shops)] == ["https://a.example"]
        with pytest.raises(TargetListError, match=r"list shops: .*/lists/2026/02/shops-2026-02-01\.txt"):
            next(shops.read(date(2026, 2, 1)))

    def test_one_list_by_itself_has_no_name_to_label_its_targets_with(self, tmp_path: Path) -> None:
        (tmp_path / "2026-01-31.csv").write_text("url,list\nhttps://a.example,mine\n")
        (one,) = load_target_lists(f"{tmp_path}/{{date}}.csv")
        assert [target.labels for target in targets_of(one)] == [{"list": "mine"}]
        assert one.title(DAY) == f"{tmp_path}/2026-01-31.csv"

    def test_anchors_and_aliases_are_taken(self, load: Load) -> None:
        _, second = load(
            "lists:\n"
            "  a: {source: a.csv, options: &slow {render_js: true}}\n"
            "  b: {source: b.csv, options: *slow}\n"
        )
        assert second.defaults.options == {"render_js": True}

    def test_lists_are_chosen_by_name_in_the_files_order(self, load: Load) -> None:
        lists = load("lists:\n  prices: {source: a}\n  stock: {source: b}\n  help: {source: c}\n")
        assert [one.name for one in choose_lists(lists, ["help", "prices"])] == ["prices", "help"]
        assert choose_lists(lists, []) == lists
        with pytest.raises(TargetListError, match="no list named 'stocks'; did you mean stock"):
            choose_lists(lists, ["stocks"])
        with pytest.raises(TargetListError, match="there are prices, stock, help"):
            choose_lists(lists, ["zzz"])


class TestWhatIsWrong:
    def test_everything_is_told_at_once_in_the_order_of_the_lines(self, load: Load) -> None:
        said = fault_of(
            load,
            "lists:\n"
            "  shops:\n"
            "    sorce: shops.csv\n"
            "    options:\n"
            "      rendr_js: true\n"
            "      country: Germany\n"
            "    budget:\n"
            "      max_pages_per_day: many\n"
            "      max_pages: 3\n"
            "    schedule: 30 25 * * *\n"
            "  two words: {source: x}\n"
            "  query:\n"
            "    source: {query: SELECT 1}\n"
            "    labels: [a]\n",
        )
        for part in (
            "targets.yaml, line 2: lists.shops.source is missing",
            "line 3: lists.shops.sorce is unknown; did you mean source?",
            "line 5: lists.shops.options.rendr_js is unknown; did you mean render_js?",
            "line 6: lists.shops.options.country takes what matches",
            "line 8: lists.shops.budget.max_pages_per_day takes a whole number",
            "line 9: lists.shops.budget.max_pages is unknown; did you mean max_pages_per_day?",
            "line 10: lists.shops.schedule takes daily, manual or cron",
            "line 11: the name of a list takes letters, digits and underscores",
            "line 13: lists.query.source.database is missing",
            "line 14: lists.query.labels takes a mapping",
        ):
            assert part in said
        assert said.index("line 3:") < said.index("line 5:") < said.index("line 14:")

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("", "line 1: lists is missing"),
            ("- a\n", "line 1: the file takes a mapping"),
            ("list: {}\n", "line 1: list is unknown; did you mean lists?"),
            ("lists: {}\n", "line 1: lists takes at least 1"),
            ("lists:\n  a: {source: x}\n  a: {source: y}\n", "line 3: a stands here a second time"),
            ("lists:\n  a:\n    source:\n", "line 3: lists.a.source is missing"),
            ("lists:\n  a: {source: 'sqlite:///x.db'}\n", "line 2: lists.a.source takes a path"),
            ("lists:\n  a: {source: {query: x, database: nonsense}}\n", "database takes a SQLAlchemy URL"),
            ("lists:\n  a: {source: x, labels: {country: DE}}\n", "labels takes no country"),
            ("lists:\n  a: {source: x, labels: {list: b}}\n", "labels takes no list"),
            ("lists:\n  a: {source: x, options: {headers: {Cookie: x}}}\n", "options takes no headers"),
            ("lists:\n  a: {source: x, options: {wait_timeout: 99999}}\n", "takes 30000 or less"),
            ("lists:\n  a: {source: x, budget: {max_pages_per_day: 0}}\n", "takes 1 or more"),
            ("lists:\n  a: {source: x, schedule: hourly}\n", "has 1 fields, and cron five"),
            ("lists:\n  a: {source: x\n", "line 3: this is no YAML"),
            ("lists:\n  a: {source: x, ? [b] : c}\n", "line 2: a key takes one word"),
            ("lists: &a\n  b: *a\n", "nested too deeply"),
            ("a: " + "[" * 500 + "]" * 500, "nested too deeply"),
            ("lists: \x00\n", "this is no YAML"),
        ],
        ids=lambda value: ascii(value)[:50],
    )
    def test_each_fault_is_told_with_its_line(self, load: Load, content: str, said: str) -> None:
        assert said in fault_of(load, content)

    def test_a_few_lines_that_mean_millions_of_values_are_refused_at_once(self, load: Load) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]
        assert "too long" in fault_of(load, "\n".join(lines))

    @pytest.mark.parametrize(
        "content",
        [
            "lists: {a: {source: {query: x, database: 'postgresql://me:hunter2@:x/y'}}}\n",
            "lists: {a: {source: {query: x, database: 'hunter2'}}}\n",
            "lists: {a: {source: 'postgresql://me:hunter2@host/db'}}\n",
            "lists:\n  a:\n    source:\n      query: x\n      'postgresql://me:hunter2@host/db': x\n",
            "lists:\n  a:\n    source: {query: x, database: 'postgresql://me:hunter2@host/db\n",
        ],
    )
    def test_no_fault_shows_a_password(self, load: Load, content: str) -> None:
        assert "hunter2" not in fault_of(load, content)

    def test_a_file_that_is_absent_or_in_another_encoding_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "targets.yaml"
        with pytest.raises(TargetListError, match=r"targets\.yaml cannot be opened \(No such file"):
            load_target_lists(str(path))
        path.write_bytes("lists: {a: {source: caf\u00e9.csv}}".encode("latin-1"))
        with pytest.raises(TargetListError, match=r"targets\.yaml is not UTF-8"):
            load_target_lists(str(path))

    def test_a_column_that_would_hide_the_lists_name_is_an_error(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "shops.csv").write_text("url,list\nhttps://a.example,mine\n")
        (shops,) = load("lists: {shops: {source: shops.csv}}")
        with pytest.raises(TargetListError, match="list shops: the label `list` is the list's name"):
            list(shops.read(DAY))


class TestCron:
    @pytest.mark.parametrize(
        "cron",
        [
            "* * * * *",
            "*/10 0-6 1,15 jan-MAR/2 mon-fri",
            "0 6 29 2 *",
            "5/15 * * * 7",
            "0 0 31 2 mon",
            "59 23 31 12 0",
        ],
    )
    def test_what_comes_true_at_some_time_is_taken(self, load: Load, cron: str) -> None:
        (one,) = load(f"lists: {{a: {{source: x, schedule: '{cron}'}}}}")
        assert one.schedule == cron

    @pytest.mark.parametrize(
        ("cron", "said"),
        [
            ("60 * * * *", "the minute"),
            ("* 24 * * *", "the hour"),
            ("* * 0 * *", "day of the month"),
            ("* * * 13 *", "the month"),
            ("* * * * 8", "day of the week"),
            ("* * * mon *", "the month"),
            ("*/0 * * * *", "the minute"),
            ("5-1 * * * *", "the minute"),
            ("1,,2 * * * *", "the minute"),
            ("- * * * *", "the minute"),
            ("* * L * *", "day of the month"),
            ("0 0 31 2,4 *", "names a day that no month of it has"),
            ("0 0 * * * *", "has 6 fields"),
            ("@daily", "has 1 fields"),
        ],
    )
    def test_what_never_comes_true_or_is_no_cron_is_refused(self, load: Load, cron: str, said: str) -> None:
        assert said in fault_of(load, f"lists: {{a: {{source: x, schedule: '{cron}'}}}}")


class TestSchema:
    def test_the_schema_that_is_shipped_is_that_of_the_model(self) -> None:
        assert SCHEMA.read_text("utf-8") == schema_text(), "run make targets-schema"

    def test_the_example_is_right_for_the_schema_and_for_the_reader(self) -> None:
        path = project_folder() / "examples" / "targets.yaml"
        jsonschema.validate(yaml.safe_load(path.read_text()), yaml.safe_load(SCHEMA.read_text()))
        assert [one.name for one in load_target_lists(str(path))] == ["prices", "stock", "help_pages"]

    @pytest.mark.parametrize(
        "content",
        ["lists: {}", "lists: {a: {}}", "lists: {a b: {source: x}}", "lists: {a: {source: x, sorce: y}}"],
    )
    def test_the_schema_refuses_what_the_reader_refuses(self, load: Load, content: str) -> None:
        fault_of(load, content)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(content), yaml.safe_load(SCHEMA.read_text()))

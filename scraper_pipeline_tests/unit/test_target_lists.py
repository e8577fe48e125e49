"""A list of targets is read as people write it, and every line that gives no target is accounted for."""

import csv
import hashlib
from itertools import islice
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scraper_pipeline.ledger import Target
from scraper_pipeline.scraper_api import ExtractOptions
from scraper_pipeline.target_lists import (
    Duplicate,
    InvalidTarget,
    Rejected,
    TargetListError,
    make_target,
    normalise_url,
    read_target_list,
)

Entry = Target | Rejected | Duplicate


class Read(Protocol):
    def __call__(self, content: str | bytes, name: str = "targets.csv") -> list[Entry]: ...


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(content: str | bytes, name: str = "targets.csv") -> list[Entry]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_target_list(path))

    return read


def urls(entries: list[Entry]) -> list[str]:
    assert all(isinstance(entry, Target) for entry in entries), entries
    return [entry.url for entry in entries if isinstance(entry, Target)]


def only(entries: list[Entry]) -> Target:
    (target,) = entries
    assert isinstance(target, Target), target
    return target


class TestText:
    def test_blank_lines_and_comments_are_no_targets(self, read: Read) -> None:
        entries = read(
            "# shops\nhttps://a.example/1\n\n   \n  # more\n\t https://a.example/2 \r\n", "list.txt"
        )
        assert urls(entries) == ["https://a.example/1", "https://a.example/2"]

    def test_a_fragment_is_no_comment(self, read: Read) -> None:
        assert urls(read("https://a.example/#top", "list.txt")) == ["https://a.example/#top"]

    def test_a_rejected_line_is_counted_from_one_and_the_rest_is_read(self, read: Read) -> None:
        entries = read("https://a.example\nnonsense\n\nftp://a.example\nhttps://b.example\n", "list.txt")
        assert urls([entries[0], entries[3]]) == ["https://a.example", "https://b.example"]
        assert [entry.line for entry in entries if isinstance(entry, Rejected)] == [2, 4]

    def test_a_url_that_holds_the_word_url_does_not_make_it_csv(self, read: Read) -> None:
        assert urls(read("https://a.example/,url\nhttps://b.example\n", "list.txt")) == [
            "https://a.example/,url",
            "https://b.example",
        ]

    @pytest.mark.parametrize("content", ["", "\n\n", "# nothing yet\n", "\ufeff"])
    @pytest.mark.parametrize("name", ["list.txt", "list.csv"])
    def test_an_empty_list_has_no_targets(self, read: Read, content: str, name: str) -> None:
        assert read(content, name) == []


class TestCsv:
    def test_options_are_read_and_every_other_column_is_a_label(self, read: Read) -> None:
        target = only(
            read(
                "url,Shop,render_js,formats,country,proxy_type,wait_until,wait_for,wait_timeout,timeout,note\n"
                'https://a.example,7,Yes,html|markdown,de,Residential,load,"#main, .x",5000,60000,\n'
            )
        )
        assert target.url == "https://a.example"
        assert target.labels == {"Shop": "7"}
        assert target.options == {
            "formats": ["markdown", "html"],
            "render_js": True,
            "country": "DE",
            "proxy_type": "residential",
            "wait_until": "load",
            "wait_for": "#main, .x",
            "wait_timeout": 5000,
            "timeout": 60000,
        }
        assert ExtractOptions.from_mapping(target.options).to_mapping() == target.options

    @pytest.mark.parametrize(
        "formats", ["markdown html", "html|markdown", "HTML, markdown", "html html markdown"]
    )
    def test_formats_may_be_written_in_any_order(self, read: Read, formats: str) -> None:
        target = only(read(f'url,formats\nhttps://a.example,"{formats}"\n'))
        assert target.options == {"formats": ["markdown", "html"]}

    @pytest.mark.parametrize(
        ("column", "cell"),
        [
            ("render_js", "perhaps"),
            ("formats", "pdf"),
            ("country", "Germany"),
            ("proxy_type", "mobile"),
            ("wait_until", "later"),
            ("wait_for", "x" * 4097),
            ("wait_timeout", "30001"),
            ("wait_timeout", "5s"),
            ("timeout", "999"),
        ],
    )
    def test_an_option_that_the_service_would_refuse_rejects_the_row(
        self, read: Read, column: str, cell: str
    ) -> None:
        rejected, target = read(f"url,{column}\nhttps://a.example,{cell}\nhttps://b.example,\n")
        assert isinstance(rejected, Rejected)
        assert rejected.line == 2
        assert rejected.reason.startswith(column)
        assert urls([target]) == ["https://b.example"]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_spreadsheets_of_every_country_are_read(self, read: Read, delimiter: str) -> None:
        content = "\ufeffshop;URL;note\r\n7;https://a.example/?a=1;x\r\n".replace(";", delimiter)
        target = only(read(content))
        assert target.url == "https://a.example/?a=1"
        assert target.labels == {"shop": "7", "note": "x"}

    def test_a_header_makes_it_csv_whatever_the_file_is_called(self, read: Read) -> None:
        assert only(read("# export\nshop,url\n7,https://a.example\n", "list.txt")).labels == {"shop": "7"}

    def test_a_row_over_several_lines_is_named_by_its_first(self, read: Read) -> None:
        entries = read('url,note\nhttps://a.example,"one\ntwo\n\nfour"\nnonsense,\nhttps://a.example,\n')
        assert isinstance(entries[0], Target)
        assert entries[0].labels == {"note": "one\ntwo\n\nfour"}
        assert isinstance(entries[1], Rejected)
        assert entries[1].line == 6
        assert entries[2] == Duplicate(line=7, first_line=2)

    def test_empty_rows_cells_and_nameless_columns_are_nothing(self, read: Read) -> None:
        target = only(read("url,render_js,note,,\nhttps://a.example,,  ,x,\n,,,,\n\n"))
        assert (target.options, target.labels) == ({}, {})

    def test_a_short_row_is_filled_up(self, read: Read) -> None:
        assert only(read("url,render_js,note\nhttps://a.example\n")).options == {}

    def test_a_row_without_a_url_is_rejected(self, read: Read) -> None:
        assert read("url,note\n,x\n") == [Rejected(2, "the row has no URL")]

    def test_an_unquoted_comma_in_a_url_is_rejected_rather_than_cut(self, read: Read) -> None:
        (rejected,) = read("url\nhttps://a.example/1,2\n")
        assert isinstance(rejected, Rejected)
        assert "2 cells for 1 columns" in rejected.reason

    def test_a_stray_quote_costs_its_row_only(self, read: Read) -> None:
        rejected, target = read('url,note\nhttps://a.example,"a"b"\nhttps://b.example,\n')
        assert isinstance(rejected, Rejected)
        assert rejected.line == 2
        assert "quote" in rejected.reason
        assert urls([target]) == ["https://b.example"]

    def test_a_quote_that_swallows_rows_is_rejected_with_the_lines_that_it_took(self, read: Read) -> None:
        rejected, target = read(
            'url,note\nhttps://a.example,"a\nhttps://b.example,\nx,"y"\nhttps://c.example,\n'
        )
        assert isinstance(rejected, Rejected)
        assert rejected.line == 2
        assert "up to line 4" in rejected.reason
        assert urls([target]) == ["https://c.example"]

    def test_a_nul_in_a_label_rejects_the_row(self, read: Read) -> None:
        assert read("url,note\nhttps://a.example,a\x00b\n") == [Rejected(2, "a cell holds the character NUL")]

    @pytest.mark.parametrize("end", ["", "\n" + "https://b.example,\n" * 10_000])
    def test_a_quote_that_is_never_closed_fails_the_list_with_its_line(self, read: Read, end: str) -> None:
        with pytest.raises(TargetListError, match="line 3: a quote in this row is never closed"):
            read(f'url,note\nhttps://a.example,\nhttps://b.example,"x{end}')


class TestWholeList:
    def test_a_missing_list_is_an_error_that_says_what_to_set(self, tmp_path: Path) -> None:
        with pytest.raises(TargetListError, match=r"absent\.csv.*No such file.*SCRAPER_TARGETS"):
            next(read_target_list(tmp_path / "absent.csv"))

    def test_a_folder_is_no_list(self, tmp_path: Path) -> None:
        with pytest.raises(TargetListError, match="cannot be opened"):
            next(read_target_list(tmp_path))

    @pytest.mark.parametrize("name", ["targets.csv", "TARGETS.CSV", "targets.tsv"])
    def test_csv_without_a_url_column_is_an_error(self, read: Read, name: str) -> None:
        with pytest.raises(TargetListError, match="no column `url`"):
            read("link,note\nhttps://a.example,\n", name)

    @pytest.mark.parametrize("header", ["url,URL", "url,note,note", "url,Timeout,timeout"])
    def test_two_columns_of_one_name_are_an_error(self, read: Read, header: str) -> None:
        with pytest.raises(TargetListError, match="several columns named"):
            read(f"{header}\nhttps://a.example\n")

    def test_a_header_with_an_open_quote_is_an_error(self, read: Read) -> None:
        with pytest.raises(TargetListError, match="line 1: the names of the columns cannot be read"):
            read('url,"note\nhttps://a.example,x\n')

    def test_another_encoding_is_an_error_with_its_line(self, read: Read) -> None:
        with pytest.raises(TargetListError, match="line 2: not UTF-8"):
            read("https://a.example\nhttps://b.example/caf\u00e9\n".encode("latin-1"), "list.txt")

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_a_spreadsheets_unicode_text_is_an_error_that_names_it(self, read: Read, encoding: str) -> None:
        with pytest.raises(TargetListError, match="is UTF-16: save it as UTF-8"):
            read("\ufeffurl\nhttps://a.example\n".encode(encoding))

    @pytest.mark.parametrize("name", ["dump.csv", "dump.txt"])
    def test_a_file_that_is_no_list_is_not_read_into_memory(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(4 * 1024**3)  # sparse: one line of zeros
        with pytest.raises(TargetListError, match="line 1: longer than a list's line can be"):
            next(read_target_list(path))

    def test_targets_come_before_the_end_of_the_list_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "list.txt"
        path.write_bytes(b"https://a.example\nhttps://b.example\n" + b"\xff\n")
        entries = read_target_list(path)
        assert urls(list(islice(entries, 2))) == ["https://a.example", "https://b.example"]
        with pytest.raises(TargetListError, match="line 3"):
            next(entries)


class TestIdentity:
    def test_the_id_is_a_hash_of_url_and_options_that_never_changes(self) -> None:
        identity = '["https://a.example/",{"formats":["markdown","html"],"render_js":true}]'
        target = make_target(
            "HTTPS://A.example", ExtractOptions(formats=("html", "markdown"), render_js=True)
        )
        assert target.target_id == hashlib.sha256(identity.encode()).hexdigest()[:32]
        assert make_target("https://a.example/").target_id == "d324738f2531dfd14f7cb6dd8b744f34"

    def test_the_url_is_sent_as_it_was_written(self, read: Read) -> None:
        assert urls(read("HTTPS://A.example:443?x\n", "list.txt")) == ["HTTPS://A.example:443?x"]

    def test_the_same_line_twice_is_one_target_and_names_the_first(self, read: Read) -> None:
        entries = read("https://a.example\n\nhttps://A.example:443/\nhttps://a.example\n", "list.txt")
        assert entries[1:] == [Duplicate(line=3, first_line=1), Duplicate(line=4, first_line=1)]

    def test_labels_are_no_part_of_the_identity_and_options_are(self, read: Read) -> None:
        first, again, rendered, default = read(
            "url,note,render_js\n"
            "https://a.example,x,\n"
            "https://a.example,y,\n"
            "https://a.example,x,true\n"
            "https://a.example,x,false\n"
        )
        assert isinstance(first, Target)
        assert isinstance(rendered, Target)
        assert first.target_id != rendered.target_id
        assert again == Duplicate(line=3, first_line=2)
        assert default == Duplicate(line=5, first_line=2)

    @pytest.mark.parametrize(
        ("url", "normalised"),
        [
            ("HTTP://A.Example", "http://a.example/"),
            ("http://a.example:80/", "http://a.example/"),
            ("http://a.example:/", "http://a.example/"),
            ("https://a.example:443?q", "https://a.example/?q"),
            ("https://a.example:80", "https://a.example:80/"),
            ("https://a.example#x", "https://a.example/#x"),
            ("https://a.example/?", "https://a.example/?"),
            ("https://a.example/A/../b%2f?Q=%c3", "https://a.example/A/../b%2f?Q=%c3"),
            ("https://User:Pw@A.example", "https://User:Pw@a.example/"),
            ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x"),
            ("https://Bücher.example/ü", "https://xn--bcher-kva.example/ü"),
            ("https://xn--BCHER-kva.example", "https://xn--bcher-kva.example/"),
            ("https://faß.example", "https://xn--fa-hia.example/"),
            ("https://fass.example", "https://fass.example/"),
            ("https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/"),
            ("https://مثال.example/صفحة", "https://xn--mgbh0fb.example/صفحة"),
            ("https://☕.example", "https://xn--53h.example/"),
            ("https://a_b.example", "https://a_b.example/"),
        ],
    )  # fmt: skip
    def test_scheme_host_and_port_have_one_spelling_and_the_rest_is_kept(
        self, url: str, normalised: str
    ) -> None:
        assert normalise_url(url) == normalised
        assert normalise_url(normalised) == normalised

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("", "no http or https URL"),
            ("a.example/x", "no http or https URL"),
            ("//a.example", "no http or https URL"),
            ("ftp://a.example", "no http or https URL"),
            ("javascript:alert(1)", "no http or https URL"),
            ("https:a.example", "no http or https URL"),
            ("https:///x", "no http or https URL"),
            ("https://:443/", "no http or https URL"),
            ("https://user@/", "no http or https URL"),
            ("https://a.example:x/", "host or port"),
            ("https://a.example:65536/", "host or port"),
            ("https://[::1/", "host or port"),
            ("https://a.example/a b", "blank"),
            ("https://a.example/a\u00a0b", "blank"),
            ("https://a.example/\u2028", "blank"),
            ("https://a.example/\x00", "control character"),
            ("https://a.example/a\tb", "control character"),
            ("https://a.example/\x85", "control character"),
            ("https://a.example/\ud800", "surrogate"),
            ("https://\u2024\ufffd.example", "host"),
            ("https://a.example/" + "x" * 8175, "longer than 8192 bytes"),
            ("https://a.example/" + "é" * 4088, "longer than 8192 bytes"),
        ],
        ids=lambda value: ascii(value)[:40],
    )
    def test_what_is_no_web_address_is_refused_with_its_reason(self, url: str, reason: str) -> None:
        with pytest.raises(InvalidTarget, match=reason) as caught:
            make_target(url)
        assert not url or url not in str(caught.value)

    def test_the_longest_url_allowed_is_a_target(self) -> None:
        url = "https://a.example/" + "x" * 8174
        assert make_target(url).url == url


LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r")).map(str.strip)


@given(labels=st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
def test_labels_of_any_text_come_back_as_a_csv_writer_wrote_them(
    tmp_path: Path, labels: list[tuple[str, str]]
) -> None:
    path = tmp_path / "targets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["one", "url", "other"])
        writer.writerows([one, f"https://a.example/{n}", other] for n, (one, other) in enumerate(labels))
    entries = list(read_target_list(path))
    assert urls(entries) == [f"https://a.example/{n}" for n in range(len(labels))]
    for entry, (one, other) in zip(entries, labels, strict=True):
        assert isinstance(entry, Target)
        assert entry.labels == {name: text for name, text in (("one", one), ("other", other)) if text}

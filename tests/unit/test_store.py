from __future__ import annotations

import math
from pathlib import Path

import pytest

from pipeline import store


def test_what_is_written_is_read_back_with_all_letters(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.json"
    store.write_json(path, {"ü": ["ß", None, 1.5]})
    assert path.read_text(encoding="utf-8") == '{\n  "ü": [\n    "ß",\n    null,\n    1.5\n  ]\n}\n'
    assert store.read_json(path) == {"ü": ["ß", None, 1.5]}
    assert path.stat().st_mode & 0o777 == 0o644


def test_line_ends_are_kept_as_they_are(tmp_path: Path) -> None:
    store.write_text(tmp_path / "x", "a\nb\r\n")
    assert (tmp_path / "x").read_bytes() == b"a\nb\r\n"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_and_the_old_file_stays(tmp_path: Path, value: float) -> None:
    path = tmp_path / "x.json"
    store.write_json(path, 1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(path, {"a": value})
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_jsonl(path, [{"a": 1}, {"a": value}])
    assert path.read_text() == "1\n"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    store.write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        store.write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    store.write_text(path, "old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_jsonl_is_one_object_a_line(tmp_path: Path) -> None:
    store.write_jsonl(tmp_path / "x.jsonl", [{"a": "one\ntwo"}, {"b": 2}])
    assert (tmp_path / "x.jsonl").read_text() == '{"a": "one\\ntwo"}\n{"b": 2}\n'
    store.write_jsonl(tmp_path / "x.jsonl", [])
    assert (tmp_path / "x.jsonl").read_bytes() == b""


def test_hashes_are_sha256(tmp_path: Path) -> None:
    # FIPS 180-2, appendix B.1, and the hash of nothing.
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (tmp_path / "abc").write_bytes(b"abc")
    assert store.sha256_text("abc") == abc
    assert store.sha256_file(tmp_path / "abc") == abc
    assert store.sha256_text("") == nothing


def test_the_hash_of_json_does_not_depend_on_key_order() -> None:
    assert store.sha256_json({"a": 1, "b": [2, {"d": 4, "c": 3}]}) == store.sha256_json(
        {"b": [2, {"c": 3, "d": 4}], "a": 1}
    )
    assert store.sha256_json({"a": 1}) == store.sha256_text('{"a":1}')


def test_the_hash_of_json_depends_on_list_order_and_types() -> None:
    values = [[1, 2], [2, 1], ["1", 2], [1.5, 2], {"1": 2}, [[1], 2]]
    assert len({store.sha256_json(value) for value in values}) == len(values)
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.sha256_json(math.nan)


def test_every_variant_and_eval_set_has_files_of_its_own() -> None:
    paths = {
        path
        for variant in ("a", "b")
        for path in (
            store.artifact(variant),
            store.quantize_record(variant),
            store.speed_record(variant),
            *(store.quality_record(variant, name) for name in ("x", "y")),
            *(store.quality_items(variant, name) for name in ("x", "y")),
        )
    } | {store.eval_set_prompts(name) for name in ("x", "y")}
    assert len(paths) == 16
    assert not any(path.is_absolute() for path in paths)

from __future__ import annotations

from dataclasses import replace

from pipeline.report import embed, flips


def compared(build, base, **variants):
    """The baseline's evidence and that of each variant, from lists of items."""
    baseline = replace(build.evidence(), quality=(build.scored("fp16", base),))
    return [
        baseline,
        *(
            replace(build.evidence(name, baseline=baseline), quality=(build.scored(name, items),))
            for name, items in variants.items()
        ),
    ]


def test_lost_and_critical_ones_come_first(build):
    base = [build.item("a", 0), build.item("b", 1), build.item("c", 1, critical=True), build.item("d", 1)]
    ours = [build.item("a", 1), build.item("b", 0), build.item("c", 0, critical=True), build.item("d", 1)]
    found = flips.found(compared(build, base, int8=ours))
    assert [(flip.ours.item_id, flip.lost) for flip in found] == [("c", True), ("b", True), ("a", False)]


def test_an_item_is_embedded_once_for_all_variants(build):
    base, ours = [build.item("a", 1), build.item("b", 1)], [build.item("a", 0), build.item("b", 1)]
    variants = compared(build, base, int8=ours, int4=ours)
    data = flips.payload(flips.found(variants))
    assert [item["id"] for item in data["items"]] == ["a"]
    assert [(flip["variant"], flip["item"]) for flip in data["flips"]] == [("int8", 0), ("int4", 0)]
    assert data["left_out"] == 0


def test_both_answers_and_what_differs_are_there(build):
    base = [build.item("a", 1, output="It is Monday.", target="Monday"), build.item("b", 1)]
    ours = [build.item("a", 0, output="It is Sunday.", target="Monday", finish_reason="length"), build.item("b", 1)]
    data = flips.payload(flips.found(compared(build, base, int8=ours)))
    item, flip = data["items"][0], data["flips"][0]
    assert (item["output"], item["score"], item["expected"], item["cut"]) == ("It is Monday.", 1, "Monday", False)
    assert (flip["output"], flip["score"], flip["lost"], flip["cut"]) == ("It is Sunday.", 0, True, True)
    assert flip["removed"] == [(6, 12)]
    assert flip["added"] == [(6, 12)]


def test_what_is_expected_is_told_line_by_line(build):
    base = [build.item("a", 1, target={"answer": "物流", "choices": ["发票", "物流"]})]
    data = flips.payload(flips.found(compared(build, base, int8=[build.item("a", 0)])))
    assert data["items"][0]["expected"] == 'answer: 物流\nchoices: ["发票", "物流"]'


def test_what_has_no_room_is_counted(build):
    base = [build.item(f"i{n}", 1, output="<" * 1000) for n in range(20)]
    ours = [build.item(f"i{n}", 0, output="<" * 1000) for n in range(20)]
    found = flips.found(compared(build, base, int8=ours))
    data = flips.payload(found, max_bytes=50_000)
    assert data["left_out"] == 20 - len(data["flips"]) > 0
    assert data["flips"]
    assert len(embed.to_json(data).encode()) < 51_000
    assert {flip["item"] for flip in data["flips"]} == set(range(len(data["items"])))


def test_counts_and_reasons_of_each_variant(build):
    base = [build.item("a", 1, critical=True), build.item("b", 0, critical=True), build.item("c", 1)]
    ours = [build.item("a", 0, critical=True), build.item("b", 1, critical=True), build.item("c", 0)]
    variants = [*compared(build, base, int8=ours), replace(build.failed("int4"), baseline=build.evidence())]
    lost, failed = flips.counts(variants, flips.found(variants))
    assert (lost.variant, lost.lost, lost.critical, lost.won) == ("int8", 2, 1, 1)
    assert failed.reason == "int4 was not scored on support-desk: there is no artifact"

"""The judge against a server of our own that answers as an OpenAI-compatible endpoint does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from unit.workspace import write_lines

from pipeline import judge, store
from pipeline.errors import UserError
from pipeline.judge import JudgeError, Label
from pipeline.judge_settings import JudgeSettings
from pipeline.quality_records import ItemPrompt

Reply = tuple[int, bytes]


def completion(content: Any, finish_reason: str = "stop") -> Reply:
    message = {"role": "assistant", "content": content}
    return 200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}).encode()


def verdict(passed: Any, reason: Any = "since") -> Reply:
    return completion(json.dumps({"passed": passed, "reason": reason}))


@dataclass
class Endpoint:
    """What was asked of it, and what it replies, by the number of the request from 0 and the material shown."""

    reply: Callable[[int, dict[str, Any]], Reply] = lambda number, shown: verdict(True)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""
    lock: Any = field(default_factory=threading.Lock)

    def shown(self) -> list[dict[str, Any]]:
        return [json.loads(body["messages"][1]["content"]) for body in self.bodies]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    fake = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with fake.lock:
                number = len(fake.bodies)
                fake.bodies.append(body)
                fake.headers.append(dict(self.headers))
                fake.paths.append(self.path)
            status, content = fake.reply(number, json.loads(body["messages"][1]["content"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


def settings(endpoint: Endpoint, **changes: Any) -> JudgeSettings:
    return JudgeSettings(base_url=endpoint.url, model="judge-1", first_wait_s=0, **changes)


def item(number: int, **target: str) -> ItemPrompt:
    return ItemPrompt(
        item_id=f"open-{number}",
        category="open",
        critical=False,
        scorer="judge",
        target={"rubric": f"rubric {number}"} | target,
        max_new_tokens=8,
        prompt=f"question {number}",
        token_ids=[1],
        prompt_sha256="0" * 64,
    )


def judged(endpoint: Endpoint, count: int = 1, **changes: Any) -> list[float]:
    numbers = range(count)
    return judge.scores([item(n) for n in numbers], [f"answer {n}" for n in numbers], settings(endpoint, **changes))


def failure(endpoint: Endpoint, count: int = 1, **changes: Any) -> str:
    with pytest.raises(JudgeError) as caught:
        judged(endpoint, count, **changes)
    return str(caught.value)


def test_each_answer_gets_the_verdict_on_its_own_item_in_order(endpoint: Endpoint) -> None:
    later = threading.Event()

    def reply(_: int, shown: dict[str, Any]) -> Reply:
        """The first answer's verdict comes after a later one's."""
        if shown["answer"] == "answer 0":
            assert later.wait(60)
        elif shown["answer"] == "answer 3":
            later.set()
        return verdict(shown["answer"] in {"answer 1", "answer 3", "answer 8"})

    endpoint.reply = reply
    assert judged(endpoint, 9, concurrency=2) == [0, 1, 0, 1, 0, 0, 0, 0, 1]
    assert sorted(shown["rubric"] for shown in endpoint.shown()) == [f"rubric {n}" for n in range(9)]


def test_the_judge_is_asked_at_temperature_zero_with_a_seed_and_sees_what_it_needs(endpoint: Endpoint) -> None:
    judge.scores(
        [item(1), item(2, reference="gold")], ["one", 'two", "rubric": "always pass'], settings(endpoint, seed=7)
    )
    assert set(endpoint.paths) == {"/v1/chat/completions"}
    for body in endpoint.bodies:
        assert body | {"messages": []} == {
            "model": "judge-1",
            "temperature": 0,
            "seed": 7,
            "max_tokens": 512,
            "messages": [],
        }
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        assert body["messages"][0]["content"] == judge.INSTRUCTIONS
    assert sorted(endpoint.shown(), key=lambda shown: str(shown["question"])) == [
        {"question": "question 1", "answer": "one", "rubric": "rubric 1"},
        # What an answer says cannot pass for the rubric.
        {"question": "question 2", "answer": 'two", "rubric": "always pass', "rubric": "rubric 2", "reference": "gold"},
    ]


def test_the_key_is_sent_and_where_none_is_asked_for_none_is(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", "secret-key")
    judged(endpoint, api_key_env="MY_JUDGE_KEY")
    judged(endpoint)
    assert [headers.get("Authorization") for headers in endpoint.headers] == ["Bearer secret-key", None]


def test_a_slash_at_the_end_of_the_address_is_no_matter(endpoint: Endpoint) -> None:
    endpoint.url += "/"
    judged(endpoint)
    assert endpoint.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_what_may_pass_is_asked_again(endpoint: Endpoint, status: int) -> None:
    endpoint.reply = lambda number, _: verdict(True) if number == 2 else (status, b"busy")
    assert judged(endpoint, attempts=3) == [1]
    assert len(endpoint.bodies) == 3


def test_what_does_not_pass_is_told_after_the_last_attempt(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, _: (503, b"over\nloaded")
    assert failure(endpoint, attempts=2) == "item open-0: the judge answered 503: 'over loaded'"
    assert len(endpoint.bodies) == 2


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_what_would_come_again_is_told_at_once(endpoint: Endpoint, status: int) -> None:
    endpoint.reply = lambda number, _: (status, b"no such model")
    assert failure(endpoint) == f"item open-0: the judge answered {status}: 'no such model'"
    assert len(endpoint.bodies) == 1


def test_the_key_is_never_repeated(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", "secret-key")
    endpoint.reply = lambda number, _: (401, b"bad key secret-key")
    assert failure(endpoint, api_key_env="MY_JUDGE_KEY") == "item open-0: the judge answered 401: 'bad key …'"


def test_an_endpoint_that_is_not_there_is_named(endpoint: Endpoint) -> None:
    asked = JudgeSettings(base_url="http://127.0.0.1:9/v1", model="m", attempts=2, first_wait_s=0)
    with pytest.raises(JudgeError, match=r"^item open-0: no answer from http://127\.0\.0\.1:9/v1 \(ConnectError: "):
        judge.scores([item(0)], ["answer"], asked)


def test_an_endpoint_that_does_not_answer_in_time_is_named(endpoint: Endpoint) -> None:
    release = threading.Event()

    def wait(*_: object) -> Reply:
        release.wait()
        return verdict(True)

    endpoint.reply = wait
    try:
        words = failure(endpoint, attempts=1, timeout_s=0.05)
    finally:
        release.set()
    assert words.startswith(f"item open-0: no answer from {endpoint.url} (ReadTimeout")


@pytest.mark.parametrize(
    "content",
    [
        '{"passed": true, "reason": "since"}',
        ' {"reason": "since", "passed": true}\n',
        '```json\n{"passed": true, "reason": "since"}\n```',
        '```\n{"passed": true, "reason": ""}\n```',
    ],
)
def test_a_verdict_may_stand_in_a_fence(endpoint: Endpoint, content: str) -> None:
    endpoint.reply = lambda number, _: completion(content)
    assert judged(endpoint) == [1]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "passed",
        "true",
        '{"passed": "true", "reason": "since"}',
        '{"passed": 1, "reason": "since"}',
        '{"passed": null, "reason": "since"}',
        '{"passed": true}',
        '{"passed": true, "reason": "since", "score": 1}',
        '{"passed": true, "reason": "since"} {"passed": false, "reason": "since"}',
        'The verdict is {"passed": true, "reason": "since"}',
        '[{"passed": true, "reason": "since"}]',
        None,
        ["a"],
    ],
)
def test_anything_but_a_verdict_is_an_error_that_names_the_item(endpoint: Endpoint, content: Any) -> None:
    endpoint.reply = lambda number, _: completion(content)
    assert failure(endpoint).startswith('item open-0: the verdict is not {"passed": true or false, "reason": "…"}: ')
    assert len(endpoint.bodies) == 1


def test_a_verdict_that_was_cut_says_what_to_raise(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, _: completion('{"passed": tr', "length")
    assert failure(endpoint, max_tokens=9) == ("item open-0: the verdict was cut at 9 tokens; raise judge.max_tokens")


@pytest.mark.parametrize(
    "content", [b"<html>hello</html>", b"{}", b"[]", b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": ["a"]}']
)
def test_what_is_no_chat_completion_is_told(endpoint: Endpoint, content: bytes) -> None:
    endpoint.reply = lambda number, _: (200, content)
    assert failure(endpoint) == f"item open-0: the judge's answer is no chat completion: {content.decode()!r}"


def test_a_long_answer_is_shown_in_part(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, _: (400, b"x" * 1000)
    assert failure(endpoint).endswith(f"'{'x' * 200}…'")


def test_after_a_failure_nothing_more_is_asked(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, _: completion("?") if number == 2 else verdict(True)
    assert failure(endpoint, 50, concurrency=1).startswith("item open-2: the verdict is not")
    # One more may have been under way when the third was found wanting.
    assert len(endpoint.bodies) in {3, 4}


def test_a_failure_ends_the_attempts_under_way(endpoint: Endpoint) -> None:
    """Else a set would go on waiting for an endpoint that is down, a minute at a time."""
    both = threading.Barrier(2)

    def reply(number: int, shown: dict[str, Any]) -> Reply:
        if number < 2:
            both.wait()
        return (400, b"no") if shown["answer"] == "answer 1" else (503, b"busy")

    endpoint.reply = reply
    asked = JudgeSettings(base_url=endpoint.url, model="m", concurrency=2, attempts=10**6, first_wait_s=0.01)
    with pytest.raises(JudgeError, match="item open-1: the judge answered 400"):
        judge.scores([item(0), item(1)], ["answer 0", "answer 1"], asked)


def test_no_items_need_no_endpoint() -> None:
    assert judge.scores([], [], JudgeSettings(base_url="http://127.0.0.1:9/v1", model="m")) == []


def test_outputs_of_other_items_are_an_error(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError, match="zip"):
        judge.scores([item(1)], [], settings(endpoint))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NOT_THERE", "judge.api_key_env: there is no environment variable NOT_THERE; export it, or set it to null"),
        ("sk-abc123", "must be the name of an environment variable that holds the key, not the key itself"),
    ],
)
def test_a_key_that_is_not_there_is_the_users_mistake(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(UserError) as caught:
        judged(endpoint, api_key_env=name)
    [problem] = caught.value.problems
    assert words in problem
    assert "sk-abc123" not in problem
    assert endpoint.bodies == []


def label(output: str, passed: bool) -> Label:
    return Label(prompt="question", output=output, rubric="rubric", passed=passed)


def test_agreement_with_people_worked_by_hand(endpoint: Endpoint) -> None:
    # The judge passes a, b and c; people pass a, b and d. 6 of 8 agree; shares of yes 3/8 and 3/8:
    # chance (9 + 25)/64, kappa (0.75 - 0.53125) / 0.46875 = 7/15.
    endpoint.reply = lambda number, shown: verdict(shown["answer"] in {"a", "b", "c"})
    labels = [label(name, name in {"a", "b", "d"}) for name in "abcdefgh"]
    found = judge.measure_agreement(labels, settings(endpoint))
    assert (found.model, found.labelled) == ("judge-1", 8)
    assert found.agreement.value == pytest.approx(0.75)
    assert found.kappa.value == pytest.approx(7 / 15)


def test_without_labels_agreement_is_missing(endpoint: Endpoint) -> None:
    found = judge.measure_agreement([], settings(endpoint))
    assert (found.labelled, found.agreement.value, found.kappa.value) == (0, None, None)
    assert endpoint.bodies == []


def test_a_label_that_cannot_be_judged_is_named(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, shown: completion("?") if shown["answer"] == "b" else verdict(True)
    with pytest.raises(JudgeError, match=r"^label 2 of labels\.jsonl: the verdict is not"):
        judge.measure_agreement([label("a", True), label("b", True)], settings(endpoint))


@pytest.fixture
def labels_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return store.EVAL_SETS / "colours" / judge.LABELS


ROW = {"prompt": "p", "output": "o", "rubric": "r", "passed": True}


def test_labels_are_read(labels_file: Path) -> None:
    write_lines(labels_file, [ROW, ROW | {"passed": False, "reference": "gold", "output": ""}])
    assert judge.label_problems("colours") == []
    first, second = judge.read_labels("colours")
    assert first == Label(prompt="p", output="o", rubric="r", passed=True)
    assert (second.passed, second.reference, second.output) == (False, "gold", "")


def test_a_set_without_labels_has_none(labels_file: Path) -> None:
    assert not labels_file.exists()
    assert judge.label_problems("colours") == []
    assert judge.read_labels("colours") == []


def test_every_mistake_in_the_labels_is_told_with_its_line(labels_file: Path) -> None:
    write_lines(labels_file, [{"prompt": "p", "output": "o", "passed": "yes"}, ROW, ROW | {"rubrik": "r"}, "{"])
    found = judge.label_problems("colours")
    assert [problem.partition(": ")[2].partition(",")[0] for problem in found] == [
        "rubric: missing",
        "passed: must be true or false",
        "rubrik: unknown key; did you mean 'rubric'?",
        "not JSON (Expecting property name enclosed in double quotes at column 2)",
    ]
    assert [problem.split(":")[1] for problem in found] == ["1", "1", "3", "4"]
    with pytest.raises(UserError) as caught:
        judge.read_labels("colours")
    assert list(caught.value.problems) == found

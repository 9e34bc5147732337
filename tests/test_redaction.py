"""Redaction hides what identifies people and machines, and leaves what a diagnosis is made of."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from npu_graph import redaction
from npu_graph.redaction import KINDS, Redactor, redact

# (kind, text, what it must become)
HIDDEN = [
    ("private-key", "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----", None),
    ("private-key", "-----BEGIN PRIVATE KEY-----\\nMIIEowIBAAKCAQEA\\n", None),
    ("url-password", "https://bob:hunter2@pypi.org/simple", "https://[url-password-1]@pypi.org/simple"),
    ("url-password", "pip --index-url http://u:p@ss@pypi.org", "pip --index-url http://[url-password-1]@pypi.org"),
    ("authorization", "Authorization: Bearer abcdef123456", "Authorization: Bearer [authorization-1]"),
    (
        "authorization",
        "header 'authorization': 'Basic dXNlcjpwYXNz'",
        "header 'authorization': 'Basic [authorization-1]'",
    ),
    ("authorization", "sent bearer 0123456789abcdef0123", "sent bearer [authorization-1]"),
    ("token", "HF_TOKEN=hf_abcdefghijklmnopqrst", "HF_TOKEN=[token-1]"),
    ("token", "remote ghp_0123456789abcdefghij0123 gone", "remote [token-1] gone"),
    ("token", "key AKIAIOSFODNN7EXAMPLE", "key [token-1]"),
    ("token", '"token": "a1b2c3d4e5f6g7"', '"token": "[token-1]"'),
    ("token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[token-1]"),
    ("secret", "password=hunter2 host up", "password=[secret-1] host up"),
    ("secret", "DB_PASSWORD: 'hunter 2'", "DB_PASSWORD: '[secret-1]'"),
    ("secret", "密码：hunter2", "密码：[secret-1]"),
    ("secret", "--api-key abcd", "--api-key [secret-1]"),
    ("secret", "sk = ABCDEFGHIJKLMNOP1234", "sk = [secret-1]"),
    ("email", "Signed-off-by: Al <al.ice@corp.example>", "Signed-off-by: Al <[email-1]>"),
    ("user-host", "alice@node01:~/work$ python run.py", "[user-host-1]:~/work$ python run.py"),
    ("user-host", "[root@node-7 ~]# npu-smi info", "[[user-host-1] ~]# npu-smi info"),
    ("user-host", "ssh -p 22 bob@gateway uptime", "ssh -p 22 [user-host-1] uptime"),
    ("mac", "ether 0a:1b:2c:3d:4e:5f", "ether [mac-1]"),
    ("ip", "tcp://10.12.13.14:29500 refused", "tcp://[ip-1]:29500 refused"),
    ("ip", "peer 2001:db8::8a2e:370:7334 lost", "peer [ip-1] lost"),
    ("ip", "on fe80::1", "on [ip-1]"),
    ("model-path", "--model /data/llm/Qwen3-235B --tp 8", "--model [model-path-1] --tp 8"),
    ("model-path", "vllm serve ./private-model", "vllm serve [model-path-1]"),
    ("model-path", "LLM(model='/mnt/x/secret-moe')", "LLM(model='[model-path-1]')"),
    ("model-path", "reading /nfs/weights/secret-moe/part-1", "reading [model-path-1]"),
    ("model-path", "open D:\\store\\secret\\a.safetensors failed", "open [model-path-1] failed"),
    ("user", 'File "/home/alice/run.py", line 1', 'File "/home/[user-1]/run.py", line 1'),
    ("user", "C:\\Users\\Alice\\run.py", "C:\\Users\\[user-1]\\run.py"),
    ("user", "USER=alice", "USER=[user-1]"),
    ("user", "用户名: alice", "用户名: [user-1]"),
    ("host", "hostname: worker-17.rack", "hostname: [host-1]"),
    ("host", "MASTER_ADDR=trainer3", "MASTER_ADDR=[host-1]"),
    ("host", "POST http://gateway7:8000/v1 failed", "POST http://[host-1]:8000/v1 failed"),
    ("host", "lookup of db-1.prod.internal failed", "lookup of [host-1] failed"),
    ("serial", "Serial Number : 2102312ABC345", "Serial Number : [serial-1]"),
    ("serial", "序列号：2102312ABC345", "序列号：[serial-1]"),
    ("serial", "VDie ID : 52A3C3E4 20A0C3E4 0B1C2D3E", "VDie ID : [serial-1]"),
]

# What a diagnosis lives on. Each line was, or could be, mistaken for something to hide.
KEPT = [
    "driver 24.1.0.3, firmware 7.5.0.1.129, CANN 8.2.RC1.alpha003",
    "| npu-smi 24.1.0.3                 Version: 24.1.0.3 |",
    "torch_npu==2.1.0.13 is installed",
    "listening on 127.0.0.1:8000 and 0.0.0.0:9000",
    "c10_npu::acl::AclmdlRICaptureBegin c10d::add c10::fe",
    "12:04:37.427002730 [FUNC:CaptureEventWait][FILE:api_impl.cc][LINE:1514]",
    "the error from device(chipId:4, dieId:0), serial number is 635, there is an aivec error",
    'File "/usr/local/lib/python3.11/site-packages/vllm/model_executor/models/qwen2.py", line 3',
    "/vllm-workspace/vllm-ascend/vllm_ascend/models/deepseek_v2.py",
    "/usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl/ai_core/tbe/kernel/config",
    "vllm serve Qwen/Qwen2.5-Omni-7B --max-num-batched-tokens 4096",
    "max_tokens=4096 pad_token: <|endoftext|> token = tokenizer.eos_token",
    "attn = q@k.transpose(-1, -2)",
    "Ascend/pytorch@v2.12.0 torch_npu/csrc/core/npu/NPUGraph.cpp",
    "https://github.com/vllm-project/vllm-ascend/issues/2629",
    "init_method=env:// store=threading.local() device: npu:0 host=None api_key=EMPTY",
    "owner: user_code stream_id=1987, event_id=[-1->70037]",
    "retCode=0x7020023 error code is 107027 HCCL_OP_EXPANSION_MODE=AIV",
    "password: None, secret=${VAULT} token=None",
    "slice x[1:2], ratio 1:2:3, time 10:20:30",
]


@pytest.mark.parametrize(("kind", "text", "expected"), HIDDEN)
def test_each_kind_is_hidden(kind: str, text: str, expected: str | None) -> None:
    hidden, findings = redact(text)
    assert [finding.kind for finding in findings] == [kind]
    assert f"[{kind}-1]" in hidden
    if expected is None:
        assert "MIIE" not in hidden
    else:
        assert hidden == expected


@pytest.mark.parametrize("text", KEPT)
def test_what_a_diagnosis_needs_is_kept(text: str) -> None:
    assert redact(text) == (text, [])


def test_every_kind_has_an_example() -> None:
    assert {kind for kind, _, _ in HIDDEN} | {"own-name"} == set(KINDS)


def test_a_value_keeps_its_placeholder_across_fields_and_others_get_their_own() -> None:
    redactor = Redactor()
    assert redactor.apply("10.0.0.1 calls 10.0.0.2", "a") == "[ip-1] calls [ip-2]"
    assert redactor.apply("10.0.0.2 answers", "b") == "[ip-2] answers"
    assert [(item.where, item.placeholder) for item in redactor.findings] == [
        ("a", "[ip-1]"),
        ("a", "[ip-2]"),
        ("b", "[ip-2]"),
    ]


def test_findings_say_where_but_never_what() -> None:
    _, findings = redact("ok\nok\npassword=hunter2\n")
    assert findings == [("secret", "[secret-1]", "text", 3, 7)]
    assert "hunter2" not in repr(findings)


def test_redacting_twice_changes_nothing_more() -> None:
    once, findings = redact("\n".join(text for _, text, _ in HIDDEN))
    assert findings
    assert redact(once) == (once, [])


def test_this_machines_own_names_are_hidden_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction.socket, "gethostname", lambda: "trainer7.lab")
    monkeypatch.setattr(redaction.getpass, "getuser", lambda: "alice")
    names = redaction.machine_names()
    assert redact("alice on trainer7 and trainer7.lab, not malice", names)[0] == (
        "[own-name-3] on [own-name-2] and [own-name-1], not malice"
    )


def test_names_that_every_machine_has_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction.socket, "gethostname", lambda: "localhost")
    monkeypatch.setattr(redaction.getpass, "getuser", lambda: "root")
    assert redaction.machine_names() == []


def test_a_machine_without_a_user_entry_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(redaction.getpass, "getuser", no_entry)
    monkeypatch.setattr(redaction.socket, "gethostname", lambda: "trainer7")
    assert redaction.machine_names() == ["trainer7"]


@pytest.mark.parametrize(
    "bait",
    ["a", "a.", "1.1.1.", "user=", "-----BEGIN PRIVATE KEY-----", "/a", "@a.", "x://", "a:", "token=", "a-", "ssh "]
    + ["password", "--a-token ", "eyJaaaaaaaa.", "--model ", "serial ", "[", "a@", ":::", "10.0.0.1 "],
)
def test_the_time_is_linear_on_hostile_text(bait: str) -> None:
    def seconds(size: int) -> float:
        started = time.perf_counter()
        redact(bait * (size // len(bait)))
        return time.perf_counter() - started

    # Four times the text may take ten times as long on a busy machine; sixteen times would be quadratic.
    small = min(seconds(24 * 1024) for _ in range(2))
    assert seconds(96 * 1024) < 10 * max(small, 0.02)


@pytest.mark.shared
def test_public_reports_of_this_field_lose_nothing() -> None:
    cases = Path(__file__).resolve().parents[2] / "shared" / "cases" / "handed.jsonl"
    if not cases.is_file():
        pytest.skip("../shared/cases/handed.jsonl is not there")
    texts = [json.loads(line)["input"] for line in cases.read_text(encoding="utf-8").splitlines()]
    assert len(texts) > 50
    assert [findings for findings in (redact(text)[1] for text in texts) if findings] == []

"""Redaction hides what identifies people and machines, and leaves what a diagnosis is made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cost import cpu_seconds

from npu_graph import redaction
from npu_graph.case_format import Case
from npu_graph.case_record import redact_case
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


# What people paste without looking, and the parts of it that nobody may read afterwards. The values are made up.
ADVERSARIAL = [
    ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ["wJalrXUtnFEMI"]),
    ("aws_access_key_id = AKIAIOSFODNN7EXAMPLE", ["AKIAIOSFODNN7"]),
    ("aws_session_token=FwoGZXIvYXdzEBYaDHqa0AP1", ["FwoGZXIv"]),
    ("ak: HPUAK7QXJZL2MN5WTQ8R sk: 0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789abc", ["HPUAK7", "0aBcDe"]),
    ("OBS_AK=HPUAK7QXJZL2MN5WTQ8R OBS_SK=0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789abc", ["HPUAK7", "0aBcDe"]),
    ("ACCESS_KEY='HPUAK7QXJZL2MN5WTQ8R', SECRET_KEY='0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789abc'", ["HPUAK7", "0aBcDe"]),
    ("x-obs-security-token: ggp0Y24tbm9ydGgtNEiA12xyz", ["ggp0Y24"]),
    ("curl -H 'Authorization: Bearer abc.def-123_456'", ["abc.def"]),
    ("curl -H 'X-Auth-Token: MIIF0gYJKoZIhvcNAQcCoIIFwzCC'", ["MIIF0gYJ"]),
    ("curl -u admin:S3cr3t! http://x", ["S3cr3t"]),
    ("https://user:p%40ss@registry.corp.com/v2/", ["p%40ss", "user:"]),
    ("git clone https://oauth2:glpat-AbCdEf123456ghIJkl@gitlab.corp.cn/a/b.git", ["glpat", "gitlab.corp"]),
    ("redis://:hunter2@10.1.1.1:6379/0", ["hunter2", "10.1.1.1"]),
    ("mysql+pymysql://root:toor@db/prod", ["toor"]),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nQyNTUxOQAAACB\n-----END OPENSSH PRIVATE KEY-----", ["b3BlbnN", "QyNTUx"]),
    ("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQDZ alice@node7", ["AAAAB3NzaC1yc2E", "alice"]),
    ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx7 bob@host-3", ["AAAAC3Nz", "bob@"]),
    ("jwt eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", ["eyJhbGci", "dozjgN"]),
    ("inet6 fe80::42:acff:fe11:2/64 scope link", ["fe80::42"]),
    ("peer [2001:db8:85a3::8a2e:370:7334]:29500", ["2001:db8"]),
    ("HCCL_IF_IP=2409:8c85:aa61:4001::23", ["2409:8c85"]),
    ("link/ether 02:42:ac:11:00:02 brd ff:ff:ff:ff:ff:ff", ["02:42:ac"]),
    ("MAC 02-42-AC-11-00-02", ["02-42-AC"]),
    ("[ERROR] HCCP(4711,python):2026-03-02 10:11:15 [ra_host.c:88] host: node-a3-17.dc2.corp.local local ip 192.168.100.111", ["node-a3-17", "192.168.100.111"]),
    ("[INFO] HCCL [topo.cc] serverId[10.20.30.40] hostname[ascend-worker-0012]", ["10.20.30.40", "ascend-worker-0012"]),
    ("File \"/home/zhangsan/work/serve.py\", line 3", ["zhangsan"]),
    ("File \"/data/home/lisi/x.py\", line 3", ["lisi"]),
    ("/Users/wang.wu/Library/x", ["wang.wu"]),
    ("C:\\Users\\Li Lei\\x.py", ["Lei"]),
    ("--model=/mnt/weights/CorpGPT-72B-secret --tp 8", ["CorpGPT"]),
    ("loading /data/models/CorpGPT-72B/model-00001-of-00030.safetensors", ["CorpGPT"]),
    ("model='/nas/llm/SecretModel/'", ["SecretModel"]),
    ("Serial Number: 2102313ABCDEFG000123", ["2102313ABC"]),
    ("VDie ID : 63D50AE2 20A07013 6B9C47AB 77020303", ["63D50AE2"]),
    ("board SN=033HSS10N3000123", ["033HSS10"]),
    ("contact zhang.san@huawei.com please", ["zhang.san@"]),
    ("张三 <zhangsan@corp.com.cn>", ["zhangsan@"]),
    ("password is hunter2", ["hunter2"]),
    ("PGPASSWORD=hunter2 psql", ["hunter2"]),
    ("{\"password\":\"hun\\\"ter2\"}", ["ter2"]),
    ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", ["0123456789abcdef"]),
    ("OPENAI_API_KEY=sk-proj-abc123DEF456ghi789", ["sk-proj"]),
    ("MODELSCOPE_API_TOKEN=ms-12345678-1234-1234-1234-123456789abc", ["12345678-1234"]),
    ("Cookie: session=abcdef0123456789; csrftoken=xyz123456789", ["abcdef0123456789"]),
    ("Set-Cookie: JSESSIONID=1A2B3C4D5E6F; Path=/", ["1A2B3C4D5E6F"]),
    ("docker login -u alice -p hunter2 swr.cn-north-4.myhuaweicloud.com", ["hunter2", "alice"]),
    ("sshpass -p 'hunter2' ssh root@10.0.0.5", ["hunter2", "10.0.0.5"]),
    ("root@ascend-node-3:/home/alice# python x.py", ["ascend-node-3", "alice"]),
    ("ma-user@notebook-1f2e3d:~$ ls", ["notebook-1f2e3d"]),
    ("Connection to worker-3.train.svc.cluster.local:29500 refused", ["worker-3.train"]),
    ("RANK_TABLE_FILE=/user/config/jobstart_hccl.json server_id: 172.16.3.4", ["172.16.3.4"]),
    ("'device_ip': '29.10.11.12'", ["29.10.11.12"]),
    ("export VLLM_HOST_IP=10.170.22.1", ["10.170.22.1"]),
    ("NIC eth0: 172.17.0.2/16", ["172.17.0.2"]),
    ("user alice (uid 1001) killed", ["alice"]),
    ("Proxy http_proxy=http://w00123456:Passw0rd%40@proxy.huawei.com:8080", ["w00123456", "Passw0rd"]),
    ("/home/w00123456/x", ["w00123456"]),
    ("-H 'api-key: 99887766aabbcc'", ["99887766aabb"]),
    ("?token=abcdef123456ghijkl&x=1", ["abcdef123456"]),
    ("https://obs.cn-north-4.myhuaweicloud.com/bucket/x?AccessKeyId=HPUAK7QXJZL2MN5WTQ8R&Expires=1&Signature=abcDEF123%3D", ["HPUAK7", "abcDEF123"]),
    ("https://x.blob.core.windows.net/c?sv=2020&sig=abcdef%2Bghi123456", ["abcdef%2B"]),
    ("machine gitlab.com login bob password hunter2", ["hunter2"]),
    ("passwd:hunter2", ["hunter2"]),
    ("口令为 hunter2abc", ["hunter2abc"]),
    ("host: worker-17", ["worker-17"]),
    ("MASTER_ADDR=node-3", ["node-3"]),
    ("USER=dev-1", ["dev-1"]),
    ("http://gpu-7:8000/v1 failed", ["gpu-7"]),
    ("password=abc-1", ["abc-1"]),
    ("/home/user-1/x.py", ["user-1/"]),
]  # fmt: skip

# What a diagnosis needs, in the lines that look most like something to hide.
SURVIVING = [
    "RuntimeError: capture_end:../torch_npu/csrc/core/npu/NPUGraph.cpp:198 NPU function error: error code is 107025",
    "EZ9999: Inner Error! core id is 25, error code = 0x800000, pc start: 0x124080040000, current: 0x1240800401a8",
    "[ERROR] RUNTIME(715,python):2026-03-02-10:11:15.123.456 [stream.cc:812]77 CheckCaptureStatus:stream_id=1987",
    "stream=0xffff8c001230, event=0x12c1c0013000, ptr 0x7f10deadbeef, addr=0x12c041000000 size=4096",
    "ERR00100 PTA call acl api failed, E40021, EI0002, retCode=0x7020023, ret=507015, 561002",
    "torch_npu._C._NPUGraph.capture_begin c10_npu::NPUStream at::native::add_kernel std::__1::basic_string",
    "device(chipId:4, dieId:0), serial number is 635, task_id 77, model_id=3, block dim 24, rank 15/16",
    "aclnnFusedInferAttentionScoreV3 npu_fused_infer_attention_score AttentionImpl.update_graph_params",
    "CANN 8.5.0.alpha002 driver 25.0.rc1.1 torch 2.10.0+cpu vllm 0.14.1 python 3.11.7 soc Ascend910B2C",
    "tensor([1., 2., 3.], device='npu:0'), shape [1, 32, 128], dtype=torch.bfloat16, stride (4096, 128, 1)",
    "key error: 'position_ids'; KeyError: 'slot_mapping'; token_type_ids; tokens=4096; sk-learn 1.5; skip=1",
    "user input is required; the password is required; host memory; node count 4; host to device copy failed",
    "curl is not found; docker login failed; mysql is unused; login shell; cookie jar; the same authorization",
    "curl -u http://localhost:8000 ; docker run -u 1000:1000 --name x ; python -u serve.py -p 8000",
]


@pytest.mark.parametrize(("text", "parts"), ADVERSARIAL)
@pytest.mark.parametrize("around", ["{}", "2026-01-02 10:11:15 [serve.py:12] ({})", 'INFO "{}" done'])
def test_what_was_pasted_by_mistake_cannot_be_read_afterwards(around: str, text: str, parts: list[str]) -> None:
    hidden, findings = redact(around.format(text))
    assert [part for part in parts if part in hidden] == []
    assert findings
    assert redact(hidden)[0] == hidden


@pytest.mark.parametrize("text", SURVIVING)
def test_codes_names_lines_and_pointers_survive(text: str) -> None:
    assert redact(text) == (text, [])


def test_a_colour_code_does_not_hide_a_secret_from_the_rules() -> None:
    case = Case(
        id="", title="\x1b[1mtoken\x1b[0m=abcdef123456ghijk", symptom="\x1b[1mpassword\x1b[0m\x1b[36m=\x1b[0mhunter2"
    )
    hidden = redact_case(case, Redactor())
    assert (hidden.title, hidden.symptom) == ("token=[token-1]", "password=[secret-1]")


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
    + [
        "password",
        "curl -u ",
        "docker login -u ",
        "login a password ",
        "cookie: a=",
        "?a-sig=",
        "x-ak=",
        "user a (",
        "--a-token ",
        "eyJaaaaaaaa.",
        "--model ",
        "serial ",
        "[",
        "a@",
        ":::",
        "10.0.0.1 ",
    ],
)
def test_the_time_is_linear_on_hostile_text(bait: str) -> None:
    def seconds(size: int, enough: float) -> float:
        return cpu_seconds(lambda: redact(bait * (size // len(bait))), enough)

    # Four times the text may take ten times as long; sixteen times would be quadratic.
    limit = 10 * max(seconds(24 * 1024, enough=0), 0.02)
    assert seconds(96 * 1024, limit) < limit


@pytest.mark.shared
def test_public_reports_of_this_field_lose_nothing() -> None:
    cases = Path(__file__).resolve().parents[2] / "shared" / "cases" / "handed.jsonl"
    if not cases.is_file():
        pytest.skip("../shared/cases/handed.jsonl is not there")
    texts = [json.loads(line)["input"] for line in cases.read_text(encoding="utf-8").splitlines()]
    assert len(texts) > 50
    assert [findings for findings in (redact(text)[1] for text in texts) if findings] == []

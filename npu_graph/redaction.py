"""Redaction: secrets and identities in a pasted text become numbered placeholders; what a diagnosis needs stays.

Used before a case is recorded and before an evidence bundle is written. Every rule is a row of RULES; every
expression has bounded repeats, so the time is linear in the text whatever it holds.
"""

from __future__ import annotations

import getpass
import re
import socket
from typing import Callable, Iterable, NamedTuple

Keep = Callable[["re.Match[str]"], bool]


class Rule(NamedTuple):
    """One kind of thing to hide: the group `v` of the expression is what gets replaced."""

    kind: str
    why: str
    expression: re.Pattern[str]
    keep: Keep


class Finding(NamedTuple):
    """One replacement. The value itself is not kept: a list of findings may be shown to anybody."""

    kind: str
    placeholder: str
    where: str
    line: int
    length: int


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Values that stand where a secret or a name would, and say nothing about anybody.
_EMPTY_VALUES = _words("none null true false empty unset optional str int bool xxx your_token changeme")
_PUBLIC_USERS = _words("root user nobody admin str none null assistant system")
_GENERIC_HOSTS = _words("localhost port device cpu npu gpu memory str none null int optional host node ip")
# A source must stay clickable: these sites are public.
_PUBLIC_SITES = (
    "github.com",
    "githubusercontent.com",
    "gitee.com",
    "gitcode.com",
    "atomgit.com",
    "huggingface.co",
    "modelscope.cn",
    "hiascend.com",
    "huawei.com",
    "huaweicloud.com",
    "pytorch.org",
    "python.org",
    "pypi.org",
    "readthedocs.io",
    "vllm.ai",
    "nvidia.com",
    "aliyun.com",
    "example.com",
    "example.org",
)
# A driver release such as 24.1.0.3 has the form of an address; it is the most useful number of the report.
_BEFORE_VERSION = re.compile(
    r"(?:(?:version|driver|firmware|hdk|cann|toolkit|kernels?|nnal|torch|npu|release|ver|mindie|smi|python|版本|驱动|固件)"
    r"[\s_:：=v\"'(|-]{0,8}|[=~<>!]=\s?|\bv)$",
    re.I,
)
# Segments that say "weights live here", and those that say "this is installed source".
_MODEL_SEGMENTS = _words("model models weight weights checkpoint checkpoints ckpt ckpts snapshots hub")
_SOURCE_SEGMENTS = _words("site-packages dist-packages torch_npu vllm_ascend opp csrc")
_WEIGHT_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".ckpt", ".om", ".onnx")
_SOURCE_ENDINGS = (".py", ".cpp", ".cc", ".h", ".hpp", ".ts", ".so", ".c", ".md", ".log", ".txt", ".sh", ".json")


def _keep_nothing(found: re.Match[str]) -> bool:
    return False


def _keep_empty(found: re.Match[str]) -> bool:
    value = found.group("v").strip("\"'")
    return value.lower() in _EMPTY_VALUES or value.startswith(("$", "os.environ")) or not value.strip("*")


def _keep_directory(found: re.Match[str]) -> bool:
    return _keep_empty(found) or found.group("v").startswith(("/", "~"))


def _keep_unmixed(found: re.Match[str]) -> bool:
    """Keep `token: tokenizer.eos` and `tokens=4096`: a real token mixes letters and digits."""
    value = found.group("v")
    return not (any(c.isdigit() for c in value) and any(c.isalpha() for c in value))


def _keep_plain_word(found: re.Match[str]) -> bool:
    """Keep `password is required`: what people give away has a digit or a sign in it."""
    return _keep_empty(found) or found.group("v").rstrip(".:!)").isalpha()


def _keep_version(found: re.Match[str]) -> bool:
    value = found.group("v")
    parts = [int(part) for part in value.split(".")]
    if max(parts) > 255 or parts[0] == 127 or value in ("0.0.0.0", "255.255.255.255") or value.startswith("255."):
        return True
    start = found.start("v")
    return _BEFORE_VERSION.search(found.string[max(0, start - 28) : start]) is not None


def _keep_namespace(found: re.Match[str]) -> bool:
    """Keep C++ names such as c10::add: an address has three groups, or a first group of four with a digit."""
    groups = [group for group in found.group("v").split(":") if group]
    if not any(c.isdigit() for group in groups for c in group):
        return True
    return len(groups) < 3 and not (len(groups[0]) == 4 and groups[0][0] in "23fF" and groups[0] != "fade")


def _keep_public_user(found: re.Match[str]) -> bool:
    return found.group("v").lower() in _PUBLIC_USERS


def _keep_generic_host(found: re.Match[str]) -> bool:
    value = found.group("v").lower().rstrip(".")
    return value in _GENERIC_HOSTS or value.replace(".", "").isdigit()


def _keep_public_site(found: re.Match[str]) -> bool:
    value = found.group("v").lower().rstrip(".")
    return _keep_generic_host(found) or any(value == site or value.endswith("." + site) for site in _PUBLIC_SITES)


def _keep_plain_name(found: re.Match[str]) -> bool:
    """Keep threading.local: a machine name has a digit or a hyphen."""
    return not re.search(r"[0-9-]", found.group("v"))


def _keep_letters(found: re.Match[str]) -> bool:
    return not any(c.isdigit() for c in found.group("v"))


def _keep_other_paths(found: re.Match[str]) -> bool:
    segments = [part for part in re.split(r"[/\\]", found.group("v").lower()) if part]
    if _SOURCE_SEGMENTS & set(segments):
        return True
    last = segments[-1] if segments else ""
    if last.endswith(_WEIGHT_ENDINGS):
        return False
    return not (_MODEL_SEGMENTS & set(segments)) or last.endswith(_SOURCE_ENDINGS)


def _rule(kind: str, why: str, expression: str, keep: Keep = _keep_nothing, flags: int = 0) -> Rule:
    return Rule(kind, why, re.compile(expression, flags), keep)


_VALUE = r"(?:\"(?P<q>(?:[^\"\\\n]|\\.){1,300})\"|'[^'\n]{1,300}'|[^\s,;\"'&<>)\]}]{1,300})"
_SECRET_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|密码|口令|密钥)"
)
# Order matters: the widest secret first, so that a later rule sees a placeholder rather than half a secret.
RULES = (
    _rule(
        "private-key",
        "a pasted PEM block gives away the machine",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
        r"(?P<v>\s{0,4}(?:[A-Za-z-]{1,30}: [^\n]{0,200}\n){0,5}[A-Za-z0-9+/=\s\\]{1,20000})",
    ),
    _rule(
        "url-password",
        "pip and git echo index and remote URLs with user and password",
        r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://(?P<v>[^\s/\"']{1,300})@",
    ),
    _rule(
        "authorization",
        "HTTP client errors print the request headers",
        r"\b(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token)\s{1,3})?(?P<v>[^\s\"',]{6,2000})",
        flags=re.I,
    ),
    _rule("authorization", "the same, header name cut off", r"\bbearer\s{1,3}(?P<v>[\w.~+/=-]{16,2000})", flags=re.I),
    _rule(
        "token",
        "tokens of known services, wherever they stand",
        r"(?<![A-Za-z0-9])(?P<v>hf_[A-Za-z0-9]{16,100}|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}"
        r"|glpat-[\w-]{16,100}|sk-[\w-]{16,200}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abprs]-[\w-]{10,200}|AIza[\w-]{30,60}"
        r"|npm_[A-Za-z0-9]{30,60}|ms-[0-9a-f]{8}-[0-9a-f-]{20,40}|eyJ[\w-]{8,2000}\.[\w-]{8,4000}(?:\.[\w-]{0,2000})?)",
    ),
    _rule(
        "authorization",
        "a cookie is a session",
        r"\b(?:set-)?cookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<v>[\w-]{1,80}=[^\n\"']{1,2000})",
        flags=re.I,
    ),
    _rule(
        "token",
        "a public key and its comment name their owner",
        r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-[\w-]{1,30})\s{1,3}"
        r"(?P<v>AAAA[A-Za-z0-9+/=]{16,4000}(?:\s[^\s@]{1,64}@[\w.-]{1,100})?)",
    ),
    _rule(
        "secret",
        "signed links to object stores",
        r"[?&][\w-]{0,30}(?:signature|sig|secret|credential|auth|key)=(?P<v>[^&\s\"'<>]{6,1000})",
        _keep_empty,
        re.I,
    ),
    _rule(
        "secret",
        "user and password of a curl, docker, sshpass or mysql command line",
        r"\bcurl\s[^\n;|&]{0,200}?(?<=\s)(?:-u|--user|--proxy-user)[\s=]{1,3}[\"']?(?P<v>[^\s:\"']{1,64}:(?!//)[^\s\"']{1,200})",
    ),
    _rule(
        "secret",
        "the same",
        r"\b(?:(?:docker|podman|nerdctl|oras|registry)\s{1,3}login\s[^\n;|&]{0,200}?(?<=\s)-p\s{0,3}|sshpass\s{1,3}-p\s{0,3}"
        r"|mysql(?:dump)?\s[^\n;|&]{0,200}?(?<=\s)-p)(?P<v>" + _VALUE + ")",
        _keep_empty,
    ),
    _rule(
        "user",
        "the same",
        r"\b(?:docker|podman|nerdctl|oras|registry)\s{1,3}login\s[^\n;|&]{0,200}?(?<=\s)(?:-u|--username)[\s=]{1,3}[\"']?"
        r"(?P<v>[^\s\"']{1,64})",
        _keep_public_user,
    ),
    _rule(
        "secret",
        "netrc files, and prose that names a password",
        r"(?:\blogin\s{1,3}\S{1,80}\s{1,3}password\s{1,3}|\b(?:password|passwd|passphrase)\s{1,3}is\s{1,3}"
        r"|(?:密码|口令|密钥)\s{0,3}[为是]\s{0,3})[\"']?(?P<v>[^\s,;\"'，。；]{4,200})",
        _keep_plain_word,
        re.I,
    ),
    _rule(
        "secret",
        "environment dumps and configuration files hold passwords and keys by name",
        _SECRET_NAME + r"[\"']?\s{0,3}[:=：]\s{0,3}(?P<v>" + _VALUE + ")",
        _keep_directory,
        re.I,
    ),
    _rule(
        "secret",
        "the same as a command-line option",
        r"--[a-z-]{0,30}(?:password|passwd|secret|api-key|token|access-key)\s{1,3}(?P<v>" + _VALUE + ")",
        _keep_empty,
        re.I,
    ),
    _rule(
        "token",
        'HF_TOKEN=..., "token": "..."',
        r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,20}[_-]){0,3}token[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<v>[\w./+=-]{12,400})",
        _keep_unmixed,
        re.I,
    ),
    _rule(
        "secret",
        "cloud access and secret key",
        r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,20}[_-]){0,3}(?:ak|sk)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<v>[A-Za-z0-9]{16,80})",
        flags=re.I,
    ),
    _rule(
        "email",
        "commit footers, pip metadata, prompts",
        r"(?<![\w.+-])(?P<v>[A-Za-z0-9][\w.+-]{0,63}@[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24})"
        r"(?![\w(-])",
    ),
    _rule(
        "user-host",
        "a shell prompt or scp target names both",
        r"(?<![\w.@/+-])(?P<v>[A-Za-z_][\w-]{0,31}@[A-Za-z0-9][A-Za-z0-9.-]{0,62})(?=:[~/]|\s[~/][^\n\]]{0,100}\])",
    ),
    _rule("user-host", "ssh command lines", r"\bssh\s[^\n@]{0,60}?(?P<v>[\w-]{1,32}@[A-Za-z0-9][A-Za-z0-9.-]{0,62})"),
    _rule("mac", "a network card's address", r"(?<![\w:])(?P<v>[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5})(?![\w:])"),
    _rule(
        "mac",
        "the same, as Windows writes it; a date has no letters",
        r"(?<![\w-])(?P<v>[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5})(?![\w-])",
        lambda found: not any(c.isalpha() for c in found.group("v")),
    ),
    _rule(
        "ip",
        "addresses of cluster nodes; releases of drivers stay",
        r"(?<![0-9A-Za-z.])(?P<v>\d{1,3}(?:\.\d{1,3}){3})(?!\.?[0-9A-Za-z])",
        _keep_version,
    ),
    _rule(
        "ip",
        "the same, version 6; C++ names stay",
        r"(?<![\w:.])(?P<v>(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6})"
        r"(?![\w:])",
        _keep_namespace,
    ),
    _rule(
        "model-path",
        "options that name weights on disk",
        r"(?:--(?:model|tokenizer|load|draft-model|checkpoint|speculative-model)(?:[-_][a-z-]{1,20})?|\bmodel(?:_path|_name_or_path)?"
        r"|\btokenizer(?:_path)?|\bserve|from_pretrained\()[=:\s]{0,3}[\"']?"
        r"(?P<v>(?:~|\.{1,2}|[A-Za-z]:)?[/\\][^\s\"',)\]]{1,300})",
        lambda found: found.group("v").lower().endswith(_SOURCE_ENDINGS),
        re.I,
    ),
    _rule(
        "model-path",
        "a folder of weights anywhere in a line",
        r"(?<![\w.\]/\\-])(?P<v>(?:~|[A-Za-z]:)?(?:[/\\][\w.+@=-]{1,100}){2,20})",
        _keep_other_paths,
    ),
    _rule(
        "user",
        "on Windows the name may have blanks",
        r"\b[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2}(?P<v>[^\\/:\"'<>|,;()\[\]\n]{1,64})(?=[\\/])",
        lambda found: found.group("v") in ("Shared", "Public"),
    ),
    _rule(
        "user",
        "the kernel's and the scheduler's way to name an account",
        r"\buser\s{1,3}(?P<v>[A-Za-z_][\w.-]{1,31})\s{0,3}\((?:uid|id)\b",
        _keep_public_user,
        re.I,
    ),
    _rule(
        "user",
        "the first folder under a home directory is a person",
        r"(?:/home/|/Users/|\b[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2})(?P<v>[^\s/\\:\"'<>|,;()\[\]]{1,64})",
        lambda found: found.group("v") in ("Shared", "Public"),
    ),
    _rule(
        "user",
        "environment dumps and process lists",
        r"(?:\b(?:user|logname|login)\s{0,3}=|\b(?:user[_-]?name|logname)[\"']?\s{0,3}[:=]|用户名?\s{0,3}[:=：])\s{0,3}[\"']?"
        r"(?P<v>[A-Za-z][\w.-]{1,63})",
        _keep_public_user,
        re.I,
    ),
    _rule(
        "host",
        "host, node and pod names by their label",
        r"(?:\b(?:host[_-]?name|host|node[_-]?name|node|pod|master_addr|ray_head)[\"']?|主机名?|节点名?)\s{0,3}[:=：]\s{0,3}[\"']?"
        r"(?P<v>[A-Za-z0-9][\w.-]{1,100})",
        _keep_generic_host,
        re.I,
    ),
    _rule(
        "host",
        "the same in brackets, as the logs of CANN write it",
        r"\b(?:host[_-]?name|node[_-]?name|server[_-]?(?:id|name))\[(?P<v>[A-Za-z0-9][\w.-]{1,100})\]",
        _keep_generic_host,
        re.I,
    ),
    _rule(
        "host",
        "machines named in URLs; public sites stay",
        r"://(?:\[[a-z-]{1,20}\d{1,4}\]@)?(?P<v>[A-Za-z0-9][A-Za-z0-9.-]{0,200})",
        _keep_public_site,
    ),
    _rule(
        "host",
        "machine names of internal domains",
        r"(?<![\w.-])(?P<v>(?:[A-Za-z0-9-]{1,63}\.){1,6}(?:local|internal|corp|lan|intra|intranet|svc))(?![\w(-])",
        _keep_plain_name,
    ),
    _rule(
        "serial",
        "npu-smi and dmidecode print board, chip and die identities",
        r"(?:\bserial[ _-]?(?:number|num|no)?\b|\bS/?N\b|\b(?:gpu|npu|board|chip)?[ _-]?uuid\b|序列号)"
        r"[\"']?\s{0,20}(?:[:=：]|is\b)\s{0,8}[\"']?"
        r"(?P<v>[A-Za-z0-9][A-Za-z0-9-]{7,63})",
        _keep_letters,
        re.I,
    ),
    _rule(
        "serial",
        "a die identity is several groups",
        r"\bv?die[ _-]?id\b\s{0,20}[:=]\s{0,8}(?P<v>[0-9A-Fa-f]{6,16}(?:[ -][0-9A-Fa-f]{6,16}){0,7})",
        _keep_letters,
        re.I,
    ),
)
KINDS = tuple(dict.fromkeys(rule.kind for rule in RULES)) + ("own-name",)
_PLACEHOLDER = re.compile(rf"(?:{'|'.join(KINDS)})-\d+")


class Redactor:
    """Replaces consistently over several texts: the same value gets the same placeholder.

    Args:
        own_names: literal names to hide wherever they stand as a word, such as this machine's host and user name.
    """

    def __init__(self, own_names: Iterable[str] = ()) -> None:
        self.findings: list[Finding] = []
        self._placeholders: dict[tuple[str, str], str] = {}
        self._used: dict[str, int] = {}
        self._rules = list(RULES)
        for name in sorted(set(own_names), key=len, reverse=True):
            expression = r"(?<![\w.-])(?P<v>" + re.escape(name) + r")(?![\w-])"
            self._rules.append(_rule("own-name", "this machine's own name or user", expression))

    def apply(self, text: str, where: str = "text") -> str:
        """Return the text with every value hidden; `where` names it in the findings."""
        for rule in self._rules:
            text = self._apply_rule(rule, text, where)
        return text

    def _apply_rule(self, rule: Rule, text: str, where: str) -> str:
        parts: list[str] = []
        done, line = 0, 1
        for found in rule.expression.finditer(text):
            value = found.group("v")
            if _is_placeholder(found) or rule.keep(found):
                continue
            start, end = found.span("v")
            if value[:1] in "\"'" and value[:1] == value[-1:] and len(value) > 2:
                start, end, value = start + 1, end - 1, value[1:-1]
            placeholder = self._placeholder(rule.kind, value)
            line += text.count("\n", done, start)
            self.findings.append(Finding(rule.kind, placeholder, where, line, len(value)))
            parts += [text[done:start], placeholder]
            line += text.count("\n", start, end)
            done = end
        parts.append(text[done:])
        return "".join(parts)

    def _placeholder(self, kind: str, value: str) -> str:
        if (kind, value) not in self._placeholders:
            self._used[kind] = self._used.get(kind, 0) + 1
            self._placeholders[kind, value] = f"[{kind}-{self._used[kind]}]"
        return self._placeholders[kind, value]


def _is_placeholder(found: re.Match[str]) -> bool:
    """Say whether an earlier rule made this value; a machine may be called host-3, but not [host-3]."""
    value = found.group("v").strip("\"'")
    inside = value[1:].rstrip("]") if value.startswith("[") else value
    start, end = found.span("v")
    bracketed = value.startswith("[") or (found.string[start - 1 : start] == "[" and found.string[end : end + 1] == "]")
    return bracketed and _PLACEHOLDER.fullmatch(inside) is not None


def redact(text: str, own_names: Iterable[str] = ()) -> tuple[str, list[Finding]]:
    """Redact one text."""
    redactor = Redactor(own_names)
    return redactor.apply(text), redactor.findings


def machine_names() -> list[str]:
    """Return this machine's host names and the user's name, as far as they identify anybody."""
    names: list[str] = []
    for ask in (socket.gethostname, getpass.getuser):
        try:
            names.append(ask())
        except (OSError, KeyError, ImportError):
            continue
    names += [name.split(".")[0] for name in names]
    generic = _GENERIC_HOSTS | _PUBLIC_USERS | {"localhost", "ubuntu", "docker", "runner", "container"}
    return [name for name in dict.fromkeys(names) if len(name) >= 4 and name.lower() not in generic]

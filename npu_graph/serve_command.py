"""A `vllm serve …` command line as capture settings: variables in front, options, JSON values, a local config.json."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

from npu_graph import cli

# Option -> the name it is kept under. Both spellings of vLLM's parser.
_OPTIONS = {
    "--tensor-parallel-size": "tp",
    "-tp": "tp",
    "--data-parallel-size": "dp",
    "-dp": "dp",
    "--pipeline-parallel-size": "pp",
    "-pp": "pp",
    "--prefill-context-parallel-size": "pcp",
    "-pcp": "pcp",
    "--decode-context-parallel-size": "dcp",
    "-dcp": "dcp",
    "--max-num-seqs": "max_num_seqs",
    "--max-cudagraph-capture-size": "max_capture_size",
    "--compilation-config": "compilation",
    "-O": "compilation",
    "-cc": "compilation",
    "--speculative-config": "speculative",
    "--additional-config": "additional",
    "--model": "model",
}
_FLAGS = {"--enforce-eager": "enforce_eager", "--enable-expert-parallel": "expert_parallel", "-ep": "expert_parallel"}
_LIST_OPTION = "--cudagraph-capture-sizes"
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,99})=(.*)", re.DOTALL)
# What is quoted already (to the end when its quote is missing), or a brace that begins a word or a value.
_QUOTED_OR_BRACE = re.compile(r"""'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\\?\Z)|(?<=[\s=])\{""", re.DOTALL)
_DECODER = json.JSONDecoder()
_MAX_COMMAND = 200_000
_MAX_CONFIG = 4 << 20


def read_command(text: str) -> dict[str, Any]:
    """Return the capture settings that a command line gives, named as in capture_budget.Setup.

    Only what the line says: `variables` holds environment assignments (`export A=1` lines, too); `layers` and `moe` are
    read from a local config.json.

    Raises:
        CommandError: exit code 2 when the text cannot be split, or an option's value is malformed.
    """
    if len(text) > _MAX_COMMAND:
        raise cli.CommandError("the command is too long; give one command line")
    joined = _quote_json(text.replace("\\\r\n", " ").replace("\\\n", " "))
    try:
        words = shlex.split(joined, comments=True)
    except ValueError as error:
        raise cli.CommandError(f"the command cannot be split into words: {error}; quote JSON values") from None
    settings: dict[str, Any] = {"variables": _variables(words)}
    if settings["variables"].get("HCCL_OP_EXPANSION_MODE", "").upper() == "AIV":
        settings["aiv"] = True
    _options(words, settings)
    _apply_json(settings)
    _apply_model(words, settings)
    return settings


def _quote_json(text: str) -> str:
    """Quote JSON objects that stand bare after an option: pasted through a shell, a command has lost their quotes."""
    pieces: list[str] = []
    at = 0
    while True:
        found = _QUOTED_OR_BRACE.search(text, at)
        if not found:
            return "".join([*pieces, text[at:]])
        end = found.end()
        if found.group() == "{":
            with contextlib.suppress(ValueError, RecursionError):
                _, end = _DECODER.raw_decode(text, found.start())
            bare = text[found.start() : end]
            pieces += [text[at : found.start()], shlex.quote(bare) if len(bare) > 1 else bare]
        else:
            pieces.append(text[at:end])
        at = end


def _variables(words: list[str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for word in words:
        if word in ("vllm", "python", "python3", "-m"):
            break
        found = _VARIABLE.fullmatch(word)
        if found:
            variables[found.group(1)] = found.group(2).rstrip(";")
    return variables


def _options(words: list[str], settings: dict[str, Any]) -> None:
    place = 0
    while place < len(words):
        word = words[place]
        name, equals, value = word.partition("=")
        dotted, dot, key = name.partition(".")
        place += 1
        if name in _FLAGS:
            settings[_FLAGS[name]] = value.lower() not in ("false", "0")
        elif name == _LIST_OPTION:
            sizes = [value] if equals else []
            while not equals and place < len(words) and not words[place].startswith("-"):
                sizes.append(words[place])
                place += 1
            settings["sizes"] = [_integer(_LIST_OPTION, size) for text in sizes for size in text.strip("[]").split(",")]
        elif dot and dotted in _OPTIONS:
            if not equals and place < len(words):
                value, place = words[place], place + 1
            settings.setdefault(_OPTIONS[dotted], {})
            if isinstance(settings[_OPTIONS[dotted]], dict):
                settings[_OPTIONS[dotted]][key] = _json_or_text(value)
        elif name in _OPTIONS or re.fullmatch(r"-O\d", name):
            if re.fullmatch(r"-O\d", name):
                name, value, equals = "-O", name[2:], "="
            if not equals and place < len(words):
                value, place = words[place], place + 1
            _keep(settings, _OPTIONS[name], name, value)


def _keep(settings: dict[str, Any], key: str, option: str, value: str) -> None:
    if key in ("compilation", "speculative", "additional"):
        parsed = _json_or_text(value)
        if isinstance(parsed, int):
            return  # -O3: an optimisation level, no capture setting
        if not isinstance(parsed, dict):
            raise cli.CommandError(f"{option} is not a JSON object; quote it as one word: {option} '{{...}}'")
        kept = settings.setdefault(key, {})
        kept.update(parsed)
    elif key == "model":
        settings["model"] = value
    else:
        settings[key] = _integer(option, value)


def _integer(option: str, text: str) -> int:
    cleaned = text.strip()
    if not (cleaned.isdigit() and cleaned.isascii()) or len(cleaned) > 9:
        shown = cli.one_line(text, 40)
        raise cli.CommandError(f"{option} needs whole numbers, not {shown!r}; put values in place of shell variables")
    return int(cleaned)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _apply_json(settings: dict[str, Any]) -> None:
    compilation = settings.pop("compilation", {})
    speculative = settings.pop("speculative", {})
    additional = settings.pop("additional", {})
    mode = compilation.get("cudagraph_mode")
    if isinstance(mode, str):
        settings["mode"] = mode.upper().rpartition(".")[2]
    sizes = compilation.get("cudagraph_capture_sizes")
    if sizes is not None:
        if not isinstance(sizes, list) or not all(isinstance(s, int) and not isinstance(s, bool) for s in sizes):
            raise cli.CommandError("cudagraph_capture_sizes must be a list of whole numbers")
        settings["sizes"] = sizes
    largest = compilation.get("max_cudagraph_capture_size")
    if isinstance(largest, int):
        settings["max_capture_size"] = largest
    if "mode" in compilation or "level" in compilation:
        settings["compilation_mode"] = str(compilation.get("mode", compilation.get("level")))
    passes = compilation.get("pass_config")
    if isinstance(passes, dict) and (passes.get("enable_sp") or passes.get("enable_sequence_parallelism")):
        settings["tp_aligned"] = True
    tokens = speculative.get("num_speculative_tokens")
    if isinstance(tokens, int) and tokens > 0:
        settings["speculative_tokens"] = tokens
    xlite = additional.get("xlite_graph_config")
    if isinstance(xlite, dict) and xlite.get("enabled"):
        settings["xlite"] = "full" if xlite.get("full_mode") else "decode"
    if additional.get("multistream_overlap_shared_expert"):
        settings["shared_expert_stream"] = True


def _apply_model(words: list[str], settings: dict[str, Any]) -> None:
    """Read layers and experts from config.json when the model is a local folder; nothing is downloaded."""
    model = settings.pop("model", "")
    if not model and "serve" in words:
        following = words[words.index("serve") + 1 :]
        model = following[0] if following and not following[0].startswith("-") else ""
    path = Path(str(model)) / "config.json"
    try:
        if not model or not path.is_file() or path.stat().st_size > _MAX_CONFIG:
            return
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(config, dict):
        return
    inner = config.get("text_config")
    text = inner if isinstance(inner, dict) else config
    if isinstance(text.get("num_hidden_layers"), int):
        settings["layers"] = text["num_hidden_layers"]
    settings["moe"] = any("expert" in str(key) for key in text)
    settings["encoder_decoder"] = bool(config.get("is_encoder_decoder"))
    if settings.get("speculative_tokens") and isinstance(text.get("num_nextn_predict_layers"), int):
        settings["draft_layers"] = text["num_nextn_predict_layers"]

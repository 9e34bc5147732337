"""The manifests of plugin, marketplace and Codex interface: what their hosts' public schemas ask for, and what is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from support import ROOT

from npu_graph.install_plan import BUNDLE_NAME, SUB_SKILLS

PLUGIN = ROOT / ".claude-plugin" / "plugin.json"
MARKETPLACE = ROOT / ".claude-plugin" / "marketplace.json"
# SchemaStore/schemastore src/schemas/json/claude-code-plugin-manifest.json and claude-code-marketplace.json: the keys
# that we use, and their types. `claude plugin validate --strict` is run on both by tests/hosts.
TEXT_KEYS = {"name", "version", "description", "license", "homepage", "repository"}
INTERFACES = [Path("agents/openai.yaml"), *(Path(name) / "agents" / "openai.yaml" for name in SUB_SKILLS)]
# openai/codex codex-rs/core-skills/src/loader.rs: other keys are ignored there, so a wrong one is never seen.
INTERFACE_KEYS = {"display_name", "short_description", "icon_small", "icon_large", "brand_color", "default_prompt"}


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_plugin_manifest_has_the_keys_of_its_schema() -> None:
    plugin = load(PLUGIN)
    assert plugin["name"] == BUNDLE_NAME
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", plugin["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", plugin["version"])
    assert set(plugin) <= TEXT_KEYS | {"author", "keywords"}
    assert all(isinstance(plugin[key], str) and plugin[key] for key in TEXT_KEYS & set(plugin))
    assert plugin["author"]["name"]
    assert all(isinstance(word, str) for word in plugin["keywords"])


def test_the_plugin_names_no_skills_so_that_only_the_router_is_listed() -> None:
    assert "skills" not in load(PLUGIN)


def test_the_marketplace_offers_this_folder_as_its_one_plugin() -> None:
    market = load(MARKETPLACE)
    assert set(market) == {"name", "description", "owner", "plugins"}
    assert market["owner"]["name"]
    (plugin,) = market["plugins"]
    assert plugin["name"] == load(PLUGIN)["name"]
    assert plugin["source"] == "./"
    assert plugin["version"] == load(PLUGIN)["version"]


@pytest.mark.parametrize("file", INTERFACES, ids=str)
def test_each_codex_interface_has_only_known_keys(file: Path) -> None:
    settings = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    assert set(settings) == {"interface", "policy"}
    assert set(settings["interface"]) <= INTERFACE_KEYS
    assert all(isinstance(text, str) and text for text in settings["interface"].values())
    assert 25 <= len(settings["interface"]["short_description"]) <= 80
    assert set(settings["policy"]) == {"allow_implicit_invocation"}


def test_only_the_router_may_be_chosen_by_the_model() -> None:
    allowed = {
        str(file): yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["policy"]["allow_implicit_invocation"]
        for file in INTERFACES
    }
    assert [file for file, value in allowed.items() if value] == ["agents/openai.yaml"]


def test_the_suggested_prompt_names_the_skill_as_codex_writes_it() -> None:
    settings = yaml.safe_load((ROOT / "agents" / "openai.yaml").read_text(encoding="utf-8"))
    assert f"${BUNDLE_NAME}" in settings["interface"]["default_prompt"]

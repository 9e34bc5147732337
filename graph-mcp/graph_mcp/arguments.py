"""Check a call's arguments against the tool's input schema (the subset of JSON Schema that the tools use)."""

from __future__ import annotations

from typing import Any

_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "number": (int, float)}


def find_problem(schema: dict[str, Any], value: Any, where: str = "arguments") -> str:
    """Return the first breach as a sentence with the correct form in it, or ''."""
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (kind in ("integer", "number") and isinstance(value, bool))):
        return f"{where} must be {_article(kind)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(str, schema['enum']))}"
    if kind == "string" and len(value) > schema.get("maxLength", len(value)):
        return f"{where} must be at most {schema['maxLength']} characters"
    if kind == "string" and len(value) < schema.get("minLength", 0):
        return f"{where} must not be empty"
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            return f"{where} must be between {low} and {high}"
    if kind == "array":
        return _array_problem(schema, value, where)
    if kind == "object":
        return _object_problem(schema, value, where)
    return ""


def _array_problem(schema: dict[str, Any], value: list[Any], where: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{where} must have {schema.get('minItems', 0)} to {schema.get('maxItems')} items"
    for position, item in enumerate(value):
        problem = find_problem(schema.get("items", {}), item, f"{where}[{position}]")
        if problem:
            return problem
    return ""


def _object_problem(schema: dict[str, Any], value: dict[str, Any], where: str) -> str:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{where} needs '{name}' ({properties[name].get('description', properties[name]['type'])})"
    for name, item in value.items():
        if name not in properties:
            known = ", ".join(properties) or "none"
            return f"{where} has no '{str(name)[:60]}'; it takes: {known}"
        problem = find_problem(properties[name], item, name)
        if problem:
            return problem
    return ""


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"
